package selftest

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/backend"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/text"
)

// commandTime bounds one command, in seconds.
const commandTime = 20

// InBox runs shell commands one after another in the sandbox of one run, as an agent
// would whose CLI holds nothing back, and tells of each what became of it.
func (b *Bench) InBox(ctx context.Context, commands []string) ([]Ran, Trail, error) {
	mark := randomHex(8)
	t, err := b.runWorker(ctx, func(spec *backend.Spec, _ *backend.Secrets, d *Door) error {
		spec.Executor, spec.ScriptPath = "script", filepath.Join(filepath.Dir(spec.Workspace), "attack.sh")
		spec.ExtraEnv, spec.ReadPaths = map[string]string{"SELFTEST_DOOR": d.URL()}, []string{b.WorkerCommand[0]}
		return writeFile(spec.ScriptPath, attackScript(mark, commands), 0o700)
	})
	if err != nil {
		return nil, t, err
	}
	var out strings.Builder
	for _, e := range t.Entries {
		if e.Type != nightcrier.EntryLog {
			continue
		}
		l, err := journal.Decode[journal.Log](e)
		if err != nil {
			return nil, t, err
		}
		if l.Stream == "stdout" {
			out.WriteString(l.Text + "\n")
		}
	}
	ran, err := readMarks(mark, out.String(), len(commands), t)
	if err == nil && !anyMade(ran) {
		err = nightcrier.Errorf(nightcrier.Refused, "nothing ran in the sandbox: %s", t.Result.FailureReason)
	}
	return ran, t, err
}

func anyMade(all []Ran) bool {
	for _, r := range all {
		if r.Made {
			return true
		}
	}
	return false
}

// attackScript runs the commands and says when each began and ended. Nobody can say so
// in its place who does not know the mark.
func attackScript(mark string, commands []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `#!/bin/sh
try() {
	printf '\n%[1]s begin %%s %%s\n' "$1" "$(date +%%s%%N)"
	timeout -k 1 %[2]d sh -c "$2" < /dev/null > "$TMPDIR/said" 2>&1
	code=$?
	head -c 2000 "$TMPDIR/said"
	printf '\n%[1]s end %%s %%s %%s\n' "$1" "$(date +%%s%%N)" "$code"
}
`, mark, commandTime)
	for i, c := range commands {
		fmt.Fprintf(&b, "try %d %s\n", i, quoteWord(c))
	}
	return b.String()
}

// quoteWord writes a text as one word of a shell.
func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// readMarks takes the output of attackScript to pieces.
func readMarks(mark, output string, commands int, t Trail) ([]Ran, error) {
	all := make([]Ran, commands)
	var from time.Time
	var said strings.Builder
	for line := range strings.Lines(output) {
		rest, marked := strings.CutPrefix(line, mark+" ")
		if !marked {
			said.WriteString(line)
			continue
		}
		words := strings.Fields(rest)
		if len(words) < 3 {
			continue
		}
		n, err := strconv.Atoi(words[1])
		nanos, err2 := strconv.ParseInt(words[2], 10, 64)
		if err != nil || err2 != nil || n < 0 || n >= commands {
			return nil, nightcrier.Errorf(nightcrier.Internal, "selftest: this mark cannot be read (does date know nanoseconds here?): %s", text.CutLine(rest, maxDetail))
		}
		if words[0] == "begin" {
			from = time.Unix(0, nanos)
			said.Reset()
			continue
		}
		r := &all[n]
		r.Made, r.Output = true, strings.TrimSpace(said.String())
		if len(words) > 3 {
			r.Exit, _ = strconv.Atoi(words[3])
		}
		if err := t.fillDuring(r, from, time.Unix(0, nanos)); err != nil {
			return nil, err
		}
	}
	return all, nil
}
