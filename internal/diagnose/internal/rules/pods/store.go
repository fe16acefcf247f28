package pods

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

var storeRules = scene.Area{Name: "store", Causes: storeCauses} // by their words in a log

var storeCauses = []scene.Cause{
	{ID: "data-store-read-only", Category: "Pod", Meaning: "a database or index that a container writes to takes no writes", Rank: rankTold, BeginsElsewhere: true},
	{ID: "data-store-sealed", Category: "Pod", Meaning: "a store of secrets is sealed and gives out nothing until it is unsealed", Rank: rankTold + 1},
	{ID: "member-waits-for-peers", Category: "Pod", Meaning: "a member of a clustered service waits for others before it serves", Rank: rankTold},
	{ID: "message-not-processable", Category: "Pod", Meaning: "a consumer cannot read a message and tries it again and again, so that what is behind it waits", Rank: rankTold + 2},
	{ID: "protocol-mismatch", Category: "Network", Meaning: "a container and what it connects to speak different protocols", Rank: rankTold, BeginsElsewhere: true},
	{ID: "schema-missing", Category: "Pod", Meaning: "a database has no such database, table or column as a container asks for", Rank: rankTold},
	{ID: "state-lock-held", Category: "Pod", Meaning: "a lock that an earlier process left is still held", Rank: rankTold + 1},
}

// storeLogPatterns are what programs say of what they keep data in.
var storeLogPatterns = []logPattern{
	{
		cause: "message-not-processable", because: "it cannot read a message and tries it again and again",
		wrongIf: "the messages are skipped and what follows is processed",
		actions: []scene.Step{
			{Action: "Look at the message that the log names, and who wrote it", Outcome: "tells a broken message from a consumer that is too old", Risk: "none: read only"},
			{Action: "Skip it or move it to a dead letter queue, and let the consumer do so by itself", Outcome: "what is behind it is processed", Risk: "the message is lost to this consumer"},
		},
		wordings: scene.NewWordings(
			`(?i)error deserializing \w+ for partition (\S{1,120} at offset \d+)`, `RecordDeserializationException`, `(?i)poison (?:pill|message|record)`,
			`(?i)(?:failed|unable|cannot|can't|could not) (?:to )?(?:decode|deserialize|unmarshal|parse) (?:the )?(?:message|record|event|payload)\b`, `(?i)\bSerializationException: .{0,40}deserializ`,
		),
	},
	{
		cause: "data-store-sealed", because: "it is sealed",
		wrongIf: "it unseals itself, and is about to",
		actions: []scene.Step{
			{Action: "Unseal it with the keys of those who hold them (vault operator unseal), each Pod of it", Outcome: "it gives out secrets again", Risk: "whoever unseals it must be entitled to"},
			{Action: "Set up unsealing by a key service, so that a restart does not need a person", Outcome: "it does not happen again", Risk: "it then depends on that service"},
		},
		wordings: scene.NewWordings(`(?i)\bvault is sealed\b`, `(?i)\bsecurity barrier not initialized`, `(?i)"?sealed"?[:=] ?true`, `(?i)core: seal configuration missing|not unsealed`),
	},
	{
		cause: "data-store-read-only", because: "what it writes to takes no writes",
		wrongIf: "it is connected to a replica on purpose", refine: otherSide,
		actions: []scene.Step{
			{Action: "See why the other side is read-only: a setting, a replica behind the name, a full disk", Outcome: "tells which of them it is", Risk: "none: read only"},
			{Action: "Turn that off, or lead writes to the primary", Outcome: "writes are taken again", Risk: "a disk that is full stays full"},
		},
		wordings: scene.NewWordings(
			`(?i)running with the --?(?:super-)?read-only`, `(?i)(?:cannot execute \w+ in a read-only transaction)`, `(?i)READONLY You can'?t write against a read only`, `NotWritablePrimary|NotMasterNoSlaveOk|NotPrimaryNoSecondaryOk`,
			`(?i)database is (?:in |set to )?read-?only`, `(?i)index read-only / allow delete`, `(?i)attempt to write a readonly database`, `MISCONF Redis is configured to save`, `(?i)(?:server|instance|node|store) is (?:in )?read-?only`,
		),
	},
	{
		cause: "state-lock-held", because: "a lock that an earlier process left is still held",
		wrongIf: "whoever holds the lock still works", actions: []scene.Step{
			{Action: "See who holds the lock that the log names and whether that still runs", Outcome: "tells a lock that was left from one that is in use", Risk: "none: read only"},
			{Action: "Release it once its holder is known to be gone, and keep probes from killing whoever holds it", Outcome: "the process goes on", Risk: "releasing a lock in use damages what it guards"},
		},
		wordings: scene.NewWordings(
			`(?i)could not acquire change ?log lock.{0,120}`, `DATABASECHANGELOGLOCK`, `(?i)waiting for change ?log lock`, `(?i)error acquiring the state lock`, `(?i)migration lock\b.{0,80}(?:held|taken|exists|locked)`,
			`(?i)(?:lock file|lockfile|node\.lock|pid file) .{0,120}(?:already exists|is held|locked)`, `(?i)another (?:instance|process|operation).{0,60}(?:is (?:already )?(?:running|using|in progress)|holds the lock)`,
		),
	},
	{
		cause: "member-waits-for-peers", because: "it waits for other members of its cluster",
		wrongIf: "the others only need longer", refine: whichPeers,
		actions: []scene.Step{
			{Action: "See which members it waits for and whether they run", Outcome: "names the member that is missing, or one that is remembered and gone", Risk: "none: read only"},
			{Action: "Let the members start together (podManagementPolicy Parallel; the StatefulSet must be made again for that), bring the missing one back, or have it forgotten", Outcome: "the cluster forms", Risk: "forgetting a member loses what only it had"},
		},
		wordings: scene.NewWordings(
			`(?i)waiting.for.((?:mnesia )?tables)`, `(?i)waiting for (?:the )?(?:other |all )?(?:peers?|members?|nodes|quorum|bootstrap)\b`, `(?i)\b(?:no|lost|without) quorum\b|quorum (?:lost|not (?:reached|met))|not enough (?:members|nodes|master nodes)`,
			`(?i)(?:unhealthy|existing) instances?(?:\(s\))? .{0,60}in the ring`, `(?i)master not discovered (?:yet|or elected)`, `(?i)CLUSTERDOWN`, `(?i)no (?:raft )?leader\b|etcdserver: no leader`, `NotEnoughReplicasException|NOREPLICAS`,
		),
	},
	{
		cause: "schema-missing", because: "the database does not have what it asks for",
		wrongIf: "a migration is about to make it", refine: otherSide,
		actions: []scene.Step{
			{Action: "See whether the migrations ran against this database, and whether it is the right one", Outcome: "tells a missing migration from a wrong database", Risk: "none: read only"},
			{Action: "Run the migrations, or correct the name", Outcome: "the queries succeed", Risk: "a migration changes data: back it up first"},
		},
		wordings: scene.NewWordings(
			`(?i)relation "?([\w.]{1,120})"? does not exist`, `(?i)column "?([\w.]{1,120})"? does not exist`, `(?i)database "([^"]{1,64})" does not exist`, `(?i)unknown database '([^']{1,64})'`, `(?i)table '([\w.]{1,120})' doesn'?t exist`,
			`(?i)no such table:? ([\w.]{1,120})`, `(?i)unknown column '([\w.]{1,120})'`, `(?i)ORA-00942`, `(?i)keyspace '?([\w.]{1,64})'? does not exist`, `(?i)invalid object name '([\w.]{1,120})'`,
		),
	},
}

// protocolLogPatterns are what either side says of one that speaks something else.
var protocolLogPatterns = []logPattern{{
	cause: "protocol-mismatch", because: "it and what it connects to speak different protocols",
	wrongIf: "a probe or a scanner speaks something else on purpose", refine: otherSide,
	actions: []scene.Step{
		{Action: "Compare the scheme and port that the client uses with what the server speaks there", Outcome: "tells plain text from TLS, HTTP from gRPC, and a wrong port", Risk: "none: read only"},
		{Action: "Correct the scheme or the port in the client's settings or in the Service", Outcome: "both speak the same", Risk: "needs a new rollout where the workload is changed"},
	},
	wordings: scene.NewWordings(
		`(?i)server gave HTTP response to HTTPS client`, `(?i)first record does not look like a TLS handshake`, `(?i)wrong version number`, `(?i)client sent an HTTP request to an HTTPS server`, `(?i)plain HTTP request was sent to HTTPS port`,
		`(?i)malformed HTTP (?:response|version|request)`, `(?i)http2: (?:frame too large|unexpected preface)|received http2 header with status: 4\d\d`, `(?i)invalid (?:http|protocol) (?:version|method)\b`, `(?i)unsupported or unrecognized SSL message`,
		`(?i)error reading server preface`, `(?i)ERR_HTTP2_ERROR|PROTOCOL_ERROR`,
	),
}}

// whichPeers adds that the members are made one after the other, where that is why the
// others are not there.
func whichPeers(f *scene.Facts, _ scene.Container, _ logMatch, n *scene.Finding) {
	o := f.Mend()
	set := scene.FindObject(f.Scene.StatefulSets, o.Namespace, o.Name)
	if o.Kind != "StatefulSet" || set == nil || set.Object.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		return
	}
	want := scene.ReplicasOrOne(set.Object.Spec.Replicas)
	if made := set.Object.Status.Replicas; made < want && f.Replicas.Ready == 0 {
		n.Summary += fmt.Sprintf(": %d of %d members were made, and by podManagementPolicy OrderedReady the next is made only when the one before is ready, so that each waits for the other", made, want)
		n.Observed = append(n.Observed, scene.Observation{Text: fmt.Sprintf("%s wants %d Pods, has %d, and makes them in order", o, want, made), Quote: fmt.Sprintf("replicas=%d", want), Ref: set.Ref})
	}
}
