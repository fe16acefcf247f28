package pods

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
	"nightcrier.dev/nightcrier/internal/text"
)

var environmentRules = scene.Area{Name: "environment", Rules: []scene.Rule{unresolvedReference, serviceLinkTaken}, Causes: environmentCauses}

var environmentCauses = []scene.Cause{
	{ID: "bad-argument", Category: "Pod", Meaning: "the process does not know an argument that it is started with", Rank: rankTold},
	{ID: "bad-env-reference", Category: "Pod", Meaning: "an environment variable refers to something that does not exist or cannot be resolved", Rank: rankTold + 1},
	{ID: "heap-exhausted", Category: "Pod", Meaning: "the process runs out of its own heap, below the container's memory limit", Rank: rankTold},
	{ID: "invalid-configuration", Category: "Pod", Meaning: "the process cannot read its configuration: it is malformed or holds a wrong value", Rank: rankTold},
	{ID: "missing-env", Category: "Pod", Meaning: "an environment variable that the process needs is not set, or empty", Rank: rankTold},
	{ID: "port-in-use", Category: "Pod", Meaning: "the port that the process listens on is taken", Rank: rankTold},
	{ID: "rbac-denied", Category: "Pod", Meaning: "the Pod's ServiceAccount may not do what the process asks of the API server", Rank: rankTold},
	{ID: "service-link-variable", Category: "Pod", Meaning: "a variable that Kubernetes sets for a Service is taken for a setting of the process", Rank: rankTold + 1},
	{ID: "version-skew", Category: "Cluster", Meaning: "the process asks for an API, schema or protocol of a version that the other side does not have", Rank: rankTold},
}

const variable = `["'\x60\\(]{0,2}\$?\{?([A-Z][A-Z0-9_]{2,63})\}?`

var environmentLogPatterns = []logPattern{
	{
		cause: "heap-exhausted", because: "it has used up its own heap",
		wrongIf: "the kernel killed it for its memory limit instead", refine: heapAndLimit,
		actions: []scene.Step{
			{Action: "Raise the heap (-Xmx, --max-old-space-size) within the memory limit, or both", Do: scene.DoEdit, Outcome: "the process has room", Risk: "a leak only takes longer"},
			{Action: "Take a heap dump and compare with the last rollout", Outcome: "tells a leak from a heap that is too small", Risk: "a dump holds the process and needs disk"},
		},
		wordings: scene.NewWordings(
			`java\.lang\.OutOfMemoryError:? ?([A-Z][\w ]{1,60})?`, `(?i)JavaScript heap out of memory`, `(?i)Reached heap limit`, `\bMemoryError\b`, `System\.OutOfMemoryException`,
			`(?i)fatal error: runtime: (out of memory|cannot allocate memory)`, `(?i)Allowed memory size of (\d+) bytes exhausted`, `(?i)GC overhead limit exceeded`, `(?i)failed to allocate memory \(NoMemoryError\)`,
		),
	},
	{
		cause: "rbac-denied", because: "its ServiceAccount may not do what it asks",
		wrongIf: "the refusal is harmless and the process fails for another reason", refine: whichAccount,
		actions: []scene.Step{
			{Action: "Give the ServiceAccount a Role and RoleBinding for exactly what the message names", Outcome: "the request is allowed", Risk: "too wide a role gives more than it needs"},
			{Action: "Check which ServiceAccount the Pod is meant to use", Outcome: "tells a missing right from a wrong account", Risk: "none: read only"},
		},
		wordings: scene.NewWordings(`is forbidden: User "?\\?"?(system:serviceaccount:[\w.:-]{1,200})`, `(system:serviceaccount:[\w.:-]{1,200})\\?"? cannot (?:get|list|watch|create|update|patch|delete|use)`),
	},
	{
		cause: "version-skew", because: "it asks for a version that the other side does not have",
		wrongIf: "what is missing was never installed", actions: []scene.Step{
			{Action: "Compare the API versions that the program asks for with those that the cluster serves (kubectl api-versions)", Outcome: "tells what to upgrade", Risk: "none: read only"},
			{Action: "Run a version of the program that fits the cluster, or install what it asks for", Outcome: "the versions fit", Risk: "another version may behave differently"},
		},
		wordings: scene.NewWordings(
			`no matches for kind \\?"?([\w./" \\]{1,80}in version[\w./" \\]{1,60})`, `(?i)the server could not find the requested resource`, `(?i)unable to recognize .{0,80}no matches`,
			`(?i)database files are incompatible with server`, `(?i)unsupported (protocol|api|schema|wire) version`, `(?i)incompatible (protocol|api|schema|wire) version`, `UnsupportedVersionException`,
			`(?i)(?:client|server) version .{1,60}(?:is too old|is too new|not supported|incompatible)`, `(?i)schema version .{0,60}(?:newer|older|mismatch|not supported|expected)`, `(?i)maximum supported API version is`,
		),
	},
	{
		cause: "port-in-use", because: "the port that it listens on is taken",
		wrongIf: "the earlier process held the port for a moment only", refine: whosePort,
		actions: []scene.Step{
			{Action: "Give the containers of the Pod, or the Pods on the host's network, different ports", Do: scene.DoEdit, Outcome: "each can listen", Risk: "Services and probes must name the new port"},
		},
		wordings: scene.NewWordings(
			`(?i)(\S{0,60}:\d{1,5}):? .{0,20}address (?:is )?already in use`, `(?i)address already in use.{0,20}?[\s:]([\d.:\[\]]{0,45}:\d{1,5})`, `(?i)port (\d{1,5}) (?:was|is) already (?:in use|allocated|bound)`,
			`EADDRINUSE`, `(?i)address (?:is )?already in use`, `(?i)bind\(\) to (\S{1,60}) failed \(98:`, `(?i)only one usage of each socket address`, `(?i)failed to bind to address (\S{1,80}): address already in use`, `\(os error 98\)|Errno 98`,
		),
	},
	{
		cause: "bad-argument", because: "it is started with an argument that it does not know",
		wrongIf: "the process prints this and fails for another reason", refine: whichArgument,
		actions: []scene.Step{
			{Action: "Correct the container's args or command to what this version of the program knows", Do: scene.DoEdit, Outcome: "the process starts", Risk: "needs a new rollout"},
			{Action: "Roll back if the image or the arguments came with the last rollout", Do: scene.DoUndo, Outcome: "program and arguments fit again", Risk: "loses what the rollout brought"},
		},
		wordings: scene.NewWordings(
			`(?i)unknown (?:long |shorthand )?(?:flag|option|argument|parameter|switch|command):? ?['"\x60]?(-{0,2}[\w.=-]{1,80})`, `flag provided but not defined: (-{1,2}[\w.-]{1,80})`,
			`(?i)unrecogni[sz]ed (?:command[- ]line )?(?:argument|option|flag|parameter)s?:? ?['"]?(-{0,2}[\w.=-]{1,80})`, `(?i)(?:invalid|illegal|bad|unexpected) (?:option|argument|flag)(?: --)?:? ['"\x60]?(-{0,2}[\w.=-]{1,80})`,
			`(?i)invalid value .{1,80} for (?:flag|option) ['"]?(-{1,2}[\w.-]{1,80})`, `(?i)invalid argument .{1,80} for ['"]?(-{1,2}[\w., -]{1,80})`, `Unrecognized VM option '([^']{1,80})'`,
			`(?i)Unrecognized option: (-\S{1,80})`, `(?i)^usage: `, `(?i)invalid (?:initial|maximum) heap size: (\S{1,80})`, `(?i)no such option:? (-{1,2}[\w-]{1,80})`, `(?i)unknown configuration (?:variable|parameter) ['"]?([\w.-]{1,80})`,
			`(?i)unrecognized configuration parameter "([^"]{1,80})"`, `\[ERROR\].{0,60}unknown (?:variable|option) '([^']{1,80})'`,
		),
	},
	{
		cause: "missing-env", because: "an environment variable that it needs is not set",
		wrongIf: "the variable is set and the process cannot use its value", refine: whichVariable,
		actions: []scene.Step{
			{Action: "Set the variable that the log names in the workload, or in the ConfigMap or Secret that it takes it from", Do: scene.DoEdit, Outcome: "the process starts", Risk: "a wrong value starts it wrongly configured"},
			{Action: "Compare the environment with the last revision that ran", Outcome: "tells when the variable was lost", Risk: "none: read only"},
		},
		wordings: scene.NewWordings(
			`(?i:env(?:ironment)?(?:[ -]?var(?:iable)?)?s?)[: ]{0,2}`+variable+`["'\x60\\})]{0,3}[^.]{0,30}(?i:not set|required|missing|undefined|unset|empty|not found|not defined|must be|is not)`,
			`(?i:missing|required|undefined|unset|no)[\w ]{0,30}(?i:env(?:ironment)?(?:[ -]?var(?:iable)?)?s?)[^A-Z]{0,40}`+variable,
			variable+`["'\x60\\})]{0,3}[\w ]{0,20}(?i:environment variable|env(?: var)?)[\w ]{0,20}(?i:not set|required|missing|must be|undefined|empty)`,
			variable+`["'\x60\\})]{0,3} (?:env(?:ironment)? )?(?:var(?:iable)? )?(?i:(?:is |was |has )?(?:not (?:been )?set|required|missing|undefined|unset|not defined|not specified|must be set|(?:setting )?(?:cannot|must not) be empty|is empty)|must (?:be )?(?:set|specified|provided|defined))`,
			`KeyError: '([A-Z][A-Z0-9_]{2,63})'`, `key not found: "([A-Z][A-Z0-9_]{2,63})"`, `Could not resolve placeholder '([^']{1,80})'`, `(?i)(\w{1,64}): (?:unbound variable|parameter not set|parameter null or not set)`,
			`(?i)must specify (?:a value for )?(?:one of )?([A-Z][A-Z0-9_]{2,63})`, `(?i)database is uninitialized and (?:superuser )?password (?:option )?is not specified`, `(?i)environment variable not found`,
		),
	},
}

// configurationLogPatterns are looked through last: what a program says when it
// cannot read its configuration is the widest, and often has a reason of its own.
var configurationLogPatterns = []logPattern{
	{
		cause: "invalid-configuration", because: "it cannot read its configuration",
		wrongIf: "the process falls back to defaults and fails for another reason", refine: whichConfiguration,
		actions: []scene.Step{
			{Action: "Correct the line that the log names in the ConfigMap or file, and restart the workload", Outcome: "the process starts", Risk: "none beyond the restart"},
			{Action: "Check the configuration with the program's own check before the next rollout", Outcome: "the next mistake is found earlier", Risk: "none"},
		},
		wordings: scene.NewWordings(
			`\[emerg\].{0,200} in `+path+`:\d+`, `\[emerg\]`, `(?i)\byaml: (?:line \d+|unmarshal|did not find|mapping values|found )`, `(?i)(?:while parsing|parsererror|scannererror|yaml\.\w+\.\w*error)`, `(?i)error (?:converting|parsing) yaml`,
			`(?i)json\.decoder\.JSONDecodeError`, `(?i)SyntaxError: .{0,60}JSON`, `(?i)invalid character .{1,12} (?:looking for|after|in) `, `JsonParseException|JsonMappingException|JsonReaderException`, `(?i)unexpected end of json input`, `cannot unmarshal .{1,80} into Go`,
			`(?i)\btoml: `, `(?i)toml parse error|TOMLDecodeError`, `(?i)(?:invalid|bad|malformed|wrong|broken) config(?:uration)?(?: file)?\b`, `(?i)(?:fail|fatal|error|could not|cannot|unable)\w*.{0,60}(?:pars|load|read|decod|unmarshal|validat)\w*.{0,40}config`,
			`(?i)config(?:uration)?(?: file)?.{0,60}(?:is invalid|invalid|parse error|syntax error|malformed)`, `(?i)error loading config`, `(?i)bad directive|Bad config file|FATAL CONFIG FILE ERROR`, `(?i)configuration file.{0,100}contains errors`, `(?i)Syntax error on line \d+ of `+path,
			`(?i)invalid value for (?:parameter|setting|key) ['"]?([\w.-]{1,80})`, `(?i)strconv\.(?:Atoi|Parse\w+): parsing`, `NumberFormatException: For input string`, `(?i)ValueError: invalid literal for int`, `(?i)Failed to bind properties under '([^']{1,80})'`,
			`(?i)invalid (?:port|duration|url|dsn)\b`, `(?i)invalid environment (?:variables?|config)`,
		),
	},
}

// heapAndLimit adds the container's limit, to compare the heap with.
func heapAndLimit(_ *scene.Facts, c scene.Container, _ logMatch, n *scene.Finding) {
	if limit := c.Spec.Resources.Limits.Memory(); !limit.IsZero() {
		n.Summary += fmt.Sprintf(" (the container's memory limit is %s)", limit)
		n.Observed = append(n.Observed, sawMemory(c))
	}
}

// whichAccount names the account, when it is the Pod's own.
func whichAccount(_ *scene.Facts, c scene.Container, t logMatch, n *scene.Finding) {
	parts := strings.Split(t.what, ":")
	if len(parts) == 4 {
		n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "ServiceAccount", Namespace: parts[2], Name: parts[3]})
	}
	if endedWithError(c) {
		n.Confidence = nightcrier.High
	}
}

// whosePort adds who else may have the port.
func whosePort(_ *scene.Facts, c scene.Container, _ logMatch, n *scene.Finding) {
	switch spec := c.Pod.Object.Spec; {
	case spec.HostNetwork:
		n.Summary += " (the Pod uses the network of its node: another Pod or process there has it)"
	case len(spec.Containers) > 1:
		n.Summary += " (by another container of the Pod: they share one network)"
	}
}

// whichArgument adds what the container is started with.
func whichArgument(_ *scene.Facts, c scene.Container, t logMatch, n *scene.Finding) {
	given := slices.Concat(c.Spec.Command, c.Spec.Args)
	i := slices.IndexFunc(given, func(a string) bool { return t.what != "" && strings.Contains(a, strings.TrimLeft(t.what, "-")) })
	if i < 0 {
		return
	}
	n.Observed = append(n.Observed, scene.Observation{Text: c.String() + " is started with that argument", Quote: text.CutMiddle(given[i], scene.MaxQuote), Ref: c.Pod.Ref})
}

// whichVariable adds what the Pod says of the variable that the log misses.
func whichVariable(_ *scene.Facts, c scene.Container, t logMatch, n *scene.Finding) {
	if t.what == "" {
		return
	}
	i := slices.IndexFunc(c.Spec.Env, func(e corev1.EnvVar) bool { return e.Name == t.what })
	switch {
	case i < 0 && len(c.Spec.EnvFrom) == 0 && c.Spec.Name != "":
		n.Summary += ", and the Pod does not set it"
		n.Observed = append(n.Observed, scene.Observation{Text: c.String() + " has no variable " + t.what, Quote: c.Spec.Name, Ref: c.Pod.Ref})
	case i >= 0 && c.Spec.Env[i].ValueFrom == nil && c.Spec.Env[i].Value == "":
		n.Summary += ", as the Pod sets it to nothing"
	}
	for _, from := range c.Spec.EnvFrom {
		if from.ConfigMapRef != nil && i < 0 {
			n.Summary += fmt.Sprintf(", nor does ConfigMap %s", from.ConfigMapRef.Name)
			n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "ConfigMap", Namespace: c.Pod.Object.Namespace, Name: from.ConfigMapRef.Name})
		}
	}
}

// whichConfiguration names the ConfigMap that the configuration comes from: the
// one mounted at the path of the log, or the only one.
func whichConfiguration(f *scene.Facts, c scene.Container, t logMatch, n *scene.Finding) {
	if strings.HasPrefix(t.what, "/") {
		whichMount(f, c, t, n)
		return
	}
	var maps []string
	for _, m := range c.Spec.VolumeMounts {
		if _, v := mountOf(c, m.MountPath); v != nil && v.ConfigMap != nil {
			maps = append(maps, v.ConfigMap.Name)
		}
	}
	if len(maps) == 1 {
		n.Summary += ", which is mounted from ConfigMap " + maps[0]
		n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "ConfigMap", Namespace: c.Pod.Object.Namespace, Name: maps[0]})
	}
}

// reference is how Kubernetes refers to another variable: $(NAME). Two dollars
// are an escape.
var reference = scene.NewPattern(`(\$?)\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)`)

// unresolvedReference finds failing containers with a variable or an argument
// that refers to a variable which is not there, or only defined after it, so
// that the process gets the reference itself.
func unresolvedReference(f *scene.Facts) []scene.Finding {
	var out []scene.Finding
	for c := range f.FailingContainers() {
		if !endedWithError(c) && !unreadyLong(c, f.Now) {
			continue
		}
		where, name := firstUnresolved(f, c)
		if name == "" {
			continue
		}
		n := scene.Finding{
			Cause: "bad-env-reference", Object: f.Mend(), Confidence: nightcrier.Medium,
			Summary: fmt.Sprintf("%s fails; %s refers to $(%s), which is not defined before it, so the process gets those very characters.", c.DescribeIn(f), where, name),
			Observed: []scene.Observation{{
				Text: c.String() + ": " + where + " refers to a variable that is not defined", Quote: "$(" + name + ")", Ref: c.Pod.Ref,
			}},
			WrongIf: "the process itself resolves the reference",
			Test:    scene.GetTest(c.Pod.Object.Namespace, "pod", c.Pod.Object.Name).DecidesBetween("no variable "+name+" is defined before the reference", "one is"),
			Actions: []scene.Step{{Action: "Define the variable before what refers to it, in " + f.Mend().String(), Do: scene.DoEdit, Outcome: "the value is resolved", Risk: "needs a new rollout"}},
		}
		if l, ok := f.FindLog(c); ok && strings.Contains(l.Text, "$("+name+")") {
			n.Confidence = nightcrier.High
			n.Observed = append(n.Observed, ObserveLog(c, l, "$("+name+")"))
		}
		out = append(out, n)
	}
	return out
}

// firstUnresolved is the first reference of c that Kubernetes leaves as it is, and
// where it stands.
func firstUnresolved(f *scene.Facts, c scene.Container) (where, name string) {
	known := map[string]bool{}
	for _, from := range c.Spec.EnvFrom {
		if from.ConfigMapRef == nil {
			return "", "" // a Secret's keys may be any
		}
		cm := scene.FindObject(f.Scene.ConfigMaps, c.Pod.Object.Namespace, from.ConfigMapRef.Name)
		if cm == nil {
			return "", ""
		}
		for key := range cm.Object.Data {
			known[from.Prefix+key] = true
		}
	}
	for _, e := range c.Spec.Env {
		if missing := firstUnknown(e.Value, known); missing != "" {
			return "env " + e.Name, missing
		}
		known[e.Name] = true
	}
	words := slices.Concat(c.Spec.Command, c.Spec.Args)
	if slices.ContainsFunc(words, func(w string) bool { return w == "-c" || w == "-ec" || w == "-lc" || w == "-exc" }) {
		return "", "" // a script's $(command)
	}
	for _, w := range words {
		if missing := firstUnknown(w, known); missing != "" {
			return "an argument", missing
		}
	}
	return "", ""
}

// ofService matches the variables that Kubernetes sets for each Service.
var ofService = scene.NewPattern(`_SERVICE_(HOST|PORT)|_PORT(_\d+_|$)|^KUBERNETES_`)

func firstUnknown(value string, known map[string]bool) string {
	for _, m := range reference.FindAllStringSubmatch(text.KeepBytes(value, 4096), 16) {
		if m[1] == "" && !known[m[2]] && !ofService.MatchString(m[2]) {
			return m[2]
		}
	}
	return ""
}

// serviceLinkTaken finds containers that fail over a variable which Kubernetes sets for a
// Service of the namespace, by its name: NAME_PORT=tcp://…, where the process has a setting of
// the same name. The container that sets the variable itself gets its own value, and one
// without service links gets none.
func serviceLinkTaken(f *scene.Facts) []scene.Finding {
	for c := range f.FailingContainers() {
		spec := &c.Pod.Object.Spec
		l, ok := f.FindLog(c)
		if !ok || !endedWithError(c) || spec.EnableServiceLinks != nil && !*spec.EnableServiceLinks {
			continue
		}
		for i := range f.Scene.Services {
			svc := &f.Scene.Services[i]
			o := &svc.Object
			prefix := strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
			own := slices.ContainsFunc(c.Spec.Env, func(e corev1.EnvVar) bool { return e.Name == prefix+"_PORT" })
			if o.Namespace != c.Pod.Object.Namespace || own || o.Spec.ClusterIP == corev1.ClusterIPNone || o.Spec.Type == corev1.ServiceTypeExternalName || o.CreationTimestamp.After(c.Pod.Object.CreationTimestamp.Time) {
				continue
			}
			line, sure := takenFor(l.Text, prefix, o.Spec.ClusterIP)
			if line == "" {
				continue
			}
			n := scene.Finding{
				Cause: "service-link-variable", Object: f.Mend(), Confidence: nightcrier.Medium,
				Summary: fmt.Sprintf("%s fails over %s_PORT, which Kubernetes sets for Service %s of the same namespace (a service link, %s_PORT=tcp://…) and the process takes for a setting of its own; its log says: %s", c.DescribeIn(f), prefix, o.Name, prefix, line),
				Observed: []scene.Observation{
					ObserveLog(c, l, line),
					{Text: fmt.Sprintf("%s exists, and enableServiceLinks of Pod %s is not false", scene.ServiceObject(o), c.Pod.Object.Name), Quote: o.Name, Ref: svc.Ref},
				},
				WrongIf: "the process is given that setting in another way",
				Test:    scene.GetTest(c.Pod.Object.Namespace, "pod", c.Pod.Object.Name).DecidesBetween("spec.enableServiceLinks is not false", "it is false"),
				Actions: []scene.Step{
					{Action: "Set enableServiceLinks: false in the Pod template of " + f.Mend().String(), Do: scene.DoEdit, Outcome: "Kubernetes sets no such variables and the process starts", Risk: "makes the Pods anew; whatever reads those variables on purpose must use DNS names"},
					{Action: "Or give Service " + o.Name + " another name", Outcome: "the variable gets another name", Risk: "its clients must be told"},
				},
			}
			if sure {
				n.Confidence = nightcrier.High
			}
			return []scene.Finding{n}
		}
	}
	return nil
}

// takenFor is the line of a log that complains of a variable of a Service: by its name or its
// value, which is sure, or of PORT beside another variable of the same prefix.
func takenFor(log, prefix, ip string) (line string, sure bool) {
	for l := range strings.SplitSeq(log, "\n") {
		l = text.KeepBytes(l, 4*scene.MaxQuote)
		named := strings.Contains(l, prefix+"_PORT") && !strings.Contains(l, prefix+"_PORT_")
		valued := ip != "" && strings.Contains(l, "tcp://"+ip+":")
		if named && unwanted.MatchString(l) || valued {
			return text.CutMiddle(l, scene.MaxQuote), true
		}
		if barePort.MatchString(l) && strings.Contains(l, prefix+"_") && unwanted.MatchString(l) {
			line = text.CutMiddle(l, scene.MaxQuote)
		}
	}
	return line, false
}

var (
	unwanted = scene.NewPattern(`(?i)deprecat|invalid|not (?:a )?(?:valid|number|integer)|cannot|can't|unable|parse|malformed|unexpected|illegal|NumberFormat|bad (?:port|value)|fail|error|unsupported|must be`)
	barePort = scene.NewPattern(`\bPORT\b`)
)
