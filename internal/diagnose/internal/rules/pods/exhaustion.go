package pods

import "nightcrier.dev/nightcrier/internal/diagnose/internal/scene"

var exhaustionRules = scene.Area{Name: "exhaustion", SceneRules: []scene.SceneRule{connectionsHeld}, Causes: exhaustionCauses} // most by their words in a log

var exhaustionCauses = []scene.Cause{
	{ID: "connections-exhausted", Category: "Pod", Meaning: "what a container connects to lets no more connections in", Rank: rankTold + 1, BeginsElsewhere: true},
	{ID: "dependency-throttles", Category: "Network", Meaning: "what a container calls refuses because of too many requests", Rank: rankTold, BeginsElsewhere: true},
	{ID: "files-exhausted", Category: "Node", Meaning: "a process may open no more files, or watch no more of them", Rank: rankTold + 1},
	{ID: "pool-exhausted", Category: "Pod", Meaning: "a container's own pool of connections or workers is used up", Rank: rankTold - 1},
	{ID: "threads-exhausted", Category: "Pod", Meaning: "a process may make no more threads or processes: a limit of processes is reached, not of memory", Rank: rankTold + 1},
}

// exhaustionLogPatterns are what programs say of something that they have no more of.
var exhaustionLogPatterns = []logPattern{
	{
		cause: "threads-exhausted", because: "it may make no more threads: the limit of processes of its Pod, or of the node, is reached",
		wrongIf: "the kernel has no memory left for another stack",
		actions: []scene.Step{
			{Action: "Compare pids.current with pids.max in the container's cgroup, and the node's podPidsLimit", Outcome: "tells the Pod's limit from the node's", Risk: "none: read only"},
			{Action: "Have the process make fewer threads, or raise podPidsLimit of the kubelet", Outcome: "threads can be made again", Risk: "a leak of threads only takes longer"},
		},
		wordings: scene.NewWordings(
			`(?i)unable to create (?:new )?native thread`, `(?i)pthread_create failed`, `(?i)can'?t (?:start|create) (?:a )?new thread`, `(?i)failed to create (?:new )?OS thread`,
			`(?i)fork:? (?:retry: )?resource temporarily unavailable`, `(?i)newosproc`, `(?i)cannot fork`, `(?i)too many processes`,
		),
	},
	{
		cause: "files-exhausted", because: "it may open or watch no more files",
		wrongIf: "the process leaks files and would reach any limit",
		actions: []scene.Step{
			{Action: "See which limit it is: the process's open files, or fs.inotify.max_user_instances and max_user_watches of the node, which all of its Pods share", Outcome: "tells what to raise and who uses it up", Risk: "none: read only"},
			{Action: "Raise that limit, or move away whoever uses it up", Outcome: "files can be opened again", Risk: "a leak only takes longer"},
		},
		wordings: scene.NewWordings(
			`(?i)(inotify (?:instances|watches|instance|watch)\b.{0,60})`, `(?i)(?:limit|number).{0,40}(inotify instances)`, `(?i)System limit for number of file watchers`, `(?i)inotify_(?:init|add_watch)\S*.{0,60}(?:too many|no space)`,
			`(?i)too many open files`, `\bEMFILE\b`, `\bENFILE\b`, `(?i)Errno 24\b`,
		),
	},
	{
		cause: "connections-exhausted", because: "what it connects to has too many connections",
		wrongIf: "the other side's limit is only met for a moment", refine: otherSide,
		actions: []scene.Step{
			{Action: "See who holds the connections of the other side, and which limit it has", Outcome: "tells a leak of one client from a limit that is too small", Risk: "none: read only"},
			{Action: "Give the clients smaller pools, put a pooler before it, or raise its limit", Outcome: "connections are let in again", Risk: "each connection takes memory of the other side"},
		},
		wordings: scene.NewWordings(
			`(?i)too many (?:client )?connections`, `(?i)sorry, too many clients already`, `(?i)remaining connection slots are reserved`, `(?i)max(?:imum)? number of (?:clients|connections) (?:reached|exceeded)`,
			`(?i)blocked because of many connection errors`, `(?i)more than 'max_user_connections'`, `ER_CON_COUNT_ERROR`, `ORA-(?:00018|00020|12516|12519)`, `(?i)connection limit exceeded`, `(?i)\bmax_connections\b`,
		),
	},
	{
		cause: "pool-exhausted", because: "its pool of connections or workers is used up",
		wrongIf: "what it is connected to answers too slowly to give anything back",
		actions: []scene.Step{
			{Action: "See who keeps what the pool gave out: slow queries, a leak, a call that never returns", Outcome: "tells a leak from a pool that is too small", Risk: "none: read only"},
			{Action: "Compare with the last rollout, and roll back if the leak came with it", Do: scene.DoUndo, Outcome: "the pool is given back", Risk: "loses what the rollout brought"},
		},
		wordings: scene.NewWordings(
			`(\w*Pool-?\d*) - Connection is not available`, `(?i)connection pool (?:is |was )?(?:exhausted|full|empty|timed? ?out)`, `(?i)pool (?:is |was |has been )?exhausted`, `PoolExhausted\w*|JedisExhaustedPoolException`,
			`(?i)time(?:d )?out (?:while )?(?:waiting for|acquiring|obtaining|getting) (?:a |an )?(?:free |idle |new )?connection`, `(?i)QueuePool limit of size (\d+) overflow`, `(?i)could not get a resource from the pool`,
			`(?i)no (?:free|idle|available) connections?\b`, `(?i)apparent connection leak`, `(?i)Timeout acquiring a connection`, `ResourceRequest timed out`, `(?i)Timeout: Pool empty`,
			`RejectedExecutionException`, `(?i)(?:thread|worker) ?pool (?:is )?(?:exhausted|full)`, `(?i)(\d+ worker_connections) are not enough`, `(?i)reached (?:pm\.)?max_children`, `(?i)work(?:er)? queue (?:is )?full`,
		),
	},
	{
		cause: "dependency-throttles", because: "what it calls refuses because of too many requests",
		wrongIf: "it waits and tries again, and nobody misses anything", refine: otherSide,
		actions: []scene.Step{
			{Action: "See whose limit it is and who uses it up", Outcome: "tells a client that asks too often from a limit that is too small", Risk: "none: read only"},
			{Action: "Ask less often, or have the limit raised", Outcome: "requests are answered again", Risk: "none beyond the other side's load"},
		},
		wordings: scene.NewWordings(
			`(?i)\b429\b.{0,60}too many requests`, `(?i)too many requests`, `(?i)rate ?limit(?:ed| exceeded| reached|ing)`, `(?i)(?:status(?:[ _-]?code)?)["':= ]{1,4}429\b`,
			`ThrottlingException|ProvisionedThroughputExceededException|RequestLimitExceeded|\bSlowDown\b`, `RESOURCE_EXHAUSTED|code = ResourceExhausted`, `(?i)quota exceeded for`,
		),
	},
}
