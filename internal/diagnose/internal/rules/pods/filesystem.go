package pods

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

var filesystemRules = scene.Area{Name: "filesystem", Causes: filesystemCauses} // by their words in a log

var filesystemCauses = []scene.Cause{
	{ID: "disk-full", Category: "Storage", Meaning: "a volume, or the node's disk, has no space left", Rank: rankTold + 1},
	{ID: "file-missing", Category: "Pod", Meaning: "a file or directory that the process needs does not exist", Rank: rankTold},
	{ID: "permission-denied", Category: "Pod", Meaning: "the process may not read, write or bind what it needs", Rank: rankTold},
	{ID: "read-only-filesystem", Category: "Storage", Meaning: "the process writes to a filesystem that is read-only", Rank: rankTold + 1},
}

// path is a file name as it stands in a log.
const path = `(/[^\s:'"\x60,;)]{1,200})`

var filesystemLogPatterns = []logPattern{
	{
		cause: "disk-full", because: "a disk has no space left",
		wrongIf: "space was made since; the container starts by itself then", refine: whichDisk,
		actions: []scene.Step{
			{Action: "See which volume or node disk is full and what fills it", Outcome: "tells what to enlarge or to clean", Risk: "none: read only"},
			{Action: "Enlarge the volume, or remove what is not needed", Outcome: "the process can write again", Risk: "removing the wrong files loses data"},
		},
		wordings: scene.NewWordings(path+`.{0,60}[Nn]o space left on device`, `(?i)no space left on device`, `ENOSPC`, `(?i)disk (?:is )?full\b`, `(?i)not enough space on the disk`, `(?i)disk quota exceeded`, `EDQUOT`, `(?i)could not (?:extend|write to) file.{0,120}no space`),
	},
	{
		cause: "read-only-filesystem", because: "it writes to a filesystem that is read-only",
		wrongIf: "the filesystem became read-only by an error of the disk, not by the Pod's settings", refine: whichMount,
		actions: []scene.Step{
			{Action: "Mount an emptyDir or a volume where the process writes", Do: scene.DoEdit, Outcome: "it can write there, the rest stays read-only", Risk: "needs a new rollout"},
			{Action: "See whether the node's kernel log tells of disk errors", Outcome: "tells a setting from a failing disk", Risk: "none: read only"},
		},
		wordings: scene.NewWordings(path+`['"]?:? .{0,40}[Rr]ead-only file ?system`, `[Rr]ead-only file ?system.{0,10}['"]`+path, `(?i)read-only file ?system`, `EROFS`),
	},
	{
		cause: "permission-denied", because: "it may not use what it needs",
		wrongIf: "what is refused is not what the process fails on", refine: whichMount,
		actions: []scene.Step{
			{Action: "Compare the user of the process (runAsUser, fsGroup) with the owner and mode of the path", Outcome: "tells which of the two to change", Risk: "none: read only"},
			{Action: "Set fsGroup or runAsUser to one that may, or use a port above 1023", Do: scene.DoEdit, Outcome: "the process starts", Risk: "more rights than it needs if set too wide"},
		},
		wordings: scene.NewWordings(
			path+`['"]?\)?:? .{0,40}[Pp]ermission denied`, `(?:EACCES|EPERM).{0,60}'`+path, `Errno 13\] Permission denied: ['"]`+path, `(?i)permission denied.{0,20}['"]`+path,
			`(?i)cannot (?:create|open|access|remove|touch|stat)[^/]{0,30}['"]?`+path+`['"]?: permission denied`, `AccessDeniedException: `+path, `Access to the path '`+path+`' is denied`,
			`(?i)(\S+:\d{1,5}): bind: permission denied`, `bind\(\) to (\S+) failed \(13: Permission denied\)`, `listen EACCES:? permission denied (\S+)`,
			path+`.{0,40}Operation not permitted`, `FileNotFoundException: `+path+` \(Permission denied\)`, `could not (?:open|create) .{0,60}"`+path+`": Permission denied`,
		),
	},
	{
		cause: "file-missing", because: "a file or directory that it needs does not exist",
		wrongIf: "the process goes on without it and fails for another reason", refine: whichMount,
		actions: []scene.Step{
			{Action: "Check that the path is in the image, or in what is mounted there, and is spelled the same", Outcome: "tells a wrong path from a missing mount", Risk: "none: read only"},
			{Action: "Mount what is missing, or correct the path in the arguments or configuration", Do: scene.DoEdit, Outcome: "the process starts", Risk: "needs a new rollout"},
		},
		wordings: scene.NewWordings(
			path+`['"]?\)?:? .{0,30}[Nn]o such file or directory`, `[Nn]o such file or directory:? .{0,20}['"]`+path, `ENOENT.{0,60}'`+path, `NoSuchFileException: `+path,
			`FileNotFoundException: `+path, `Could not find (?:file|a part of the path) '`+path, `Cannot find module '([^']{1,200})'`, `can't open file '([^']{1,200})'`,
			`(?i)unable to access jarfile (\S{1,200})`, `The application to execute does not exist: '`+path, `ModuleNotFoundError: No module named '([\w.]{1,100})'`,
			`(?i)(?:file|directory|path) ['"]?`+path+`['"]? (?:(?:does|do|did) not exist|(?:was |is |were |could )?not (?:be )?found|is missing|doesn't exist)`,
			`(?i)(?:file|directory) ['"]([\w./-]{1,200})['"] (?:does not exist|(?:was |is |could )?not (?:be )?found|is missing)`, `(?i)(?:open|stat|read(?:ing)?|load(?:ing)?) ([\w./-]{1,200}): no such file or directory`,
			`(?i)could not find (?:or load )?(?:main class|config(?:uration)? file):? (\S{1,200})`, `(?i)can'?t open ['"]?`+path, `Cannot open file ['"]?`+path,
		),
	},
}

// whichMount adds what is mounted at the path that the log names.
func whichMount(f *scene.Facts, c scene.Container, t logMatch, n *scene.Finding) {
	if !strings.HasPrefix(t.what, "/") {
		return
	}
	sc := c.Spec.SecurityContext
	mount, v := mountOf(c, t.what)
	if mount == nil {
		if t.pattern.cause == "read-only-filesystem" && sc != nil && sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem {
			n.Summary += ", as readOnlyRootFilesystem is set and no volume is mounted there"
			n.Observed = append(n.Observed, scene.Observation{Text: c.String() + " has a read-only root filesystem", Quote: "readOnlyRootFilesystem=true", Ref: c.Pod.Ref})
		}
		return
	}
	n.Summary += fmt.Sprintf(", in volume %s mounted at %s", mount.Name, mount.MountPath)
	if mount.ReadOnly {
		n.Summary += " read-only"
	}
	if v == nil {
		return
	}
	switch {
	case v.ConfigMap != nil:
		n.Summary += fmt.Sprintf(" (ConfigMap %s%s)", v.ConfigMap.Name, keysOf(f.Scene, c.Pod.Object.Namespace, v.ConfigMap.Name))
		n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "ConfigMap", Namespace: c.Pod.Object.Namespace, Name: v.ConfigMap.Name})
	case v.Secret != nil:
		n.Summary += " (Secret " + v.Secret.SecretName + ")"
		n.DependsOn = append(n.DependsOn, nightcrier.Object{Kind: "Secret", Namespace: c.Pod.Object.Namespace, Name: v.Secret.SecretName})
	case v.PersistentVolumeClaim != nil:
		n.Summary += " (claim " + v.PersistentVolumeClaim.ClaimName + ")"
		n.DependsOn = append(n.DependsOn, claimObject(c, v))
	}
}

func claimObject(c scene.Container, v *corev1.Volume) nightcrier.Object {
	return nightcrier.Object{Kind: "PersistentVolumeClaim", Namespace: c.Pod.Object.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
}

// keysOf tells the keys of a ConfigMap that was read, at most a few.
func keysOf(s *scene.Scene, ns, name string) string {
	cm := scene.FindObject(s.ConfigMaps, ns, name)
	if cm == nil {
		return ""
	}
	keys := slices.Concat(sortedKeys(cm.Object.Data), sortedKeys(cm.Object.BinaryData))
	if len(keys) > 5 {
		keys = append(keys[:5], "…")
	}
	return " with " + cmp.Or(strings.Join(keys, ", "), "no keys")
}

// whichDisk adds whose disk is full: a claim's, which is then what to mend, or
// the node's.
func whichDisk(f *scene.Facts, c scene.Container, t logMatch, n *scene.Finding) {
	whichMount(f, c, t, n)
	var claims []*corev1.Volume
	for i, v := range c.Pod.Object.Spec.Volumes {
		mounted := slices.ContainsFunc(c.Spec.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name && !m.ReadOnly })
		if v.PersistentVolumeClaim != nil && mounted {
			claims = append(claims, &c.Pod.Object.Spec.Volumes[i])
		}
	}
	if len(n.DependsOn) == 0 && len(claims) == 1 && t.what == "" {
		n.Summary += ", most likely that of claim " + claims[0].PersistentVolumeClaim.ClaimName
		n.DependsOn = append(n.DependsOn, claimObject(c, claims[0]))
	}
}
