package scene

// MissingConfigPattern matches what a kubelet says of a ConfigMap, a Secret or a key that is
// not there.
var MissingConfigPattern = NewPattern(`couldn't find key|(?i:(configmaps?|secrets?) "[^"]{1,253}" not found)`)

// NotExecutablePattern matches what runtimes say about a command that is not there.
var NotExecutablePattern = NewPattern(`executable file not found|no such file or directory|exec format error|permission denied|is a directory: unknown|no command specified`)

// ImageTroublePattern matches text that is about an image that cannot be had.
var ImageTroublePattern = NewPattern(`ImagePullBackOff|ErrImage\w+|InvalidImageName|[Ff]ailed to pull|[Bb]ack-off pulling image`)

// KilledByProbePattern matches what a kubelet says when it ends a container because of
// a probe.
var KilledByProbePattern = NewPattern(`failed (liveness|startup) probe`)
