package kept

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/changes"
	"nightcrier.dev/nightcrier/internal/diagnose"
	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/mask"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/record/replay"
	"nightcrier.dev/nightcrier/internal/record/workspace"
)

// secret is a value that nothing kept may hold.
const secret = "sk-kept-4f9a1c2d7e"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// live is a cluster that counts who asks it.
type live struct{ asked int }

func (l *live) Get(context.Context, nightcrier.Resource) ([]byte, error) {
	l.asked++
	if l.asked > 1 {
		return nil, nightcrier.Errorf(nightcrier.NotFound, "it is gone, with %s", secret)
	}
	return []byte(`{"kind":"Pod","spec":{"value":"` + secret + `"}}`), nil
}

func (l *live) List(context.Context, string, string, string, string, int) ([]byte, error) {
	l.asked++
	return []byte(`{"items":[]}`), nil
}

func (l *live) Logs(context.Context, string, string, string, bool, int64, int64) ([]byte, error) {
	l.asked++
	return []byte("no text: \xff\xfe\n"), nil
}

func (l *live) Permissions(context.Context, string) (map[string]any, error) {
	l.asked++
	return map[string]any{"n": 1, "token": secret}, nil
}

func (l *live) Release(context.Context, string, string) (changes.Release, error) {
	l.asked++
	return changes.Release{Name: "cart"}, nil
}

// opened is a workspace, and the secrets that are known there.
func opened(t *testing.T) (*workspace.Workspace, *mask.Masker) {
	t.Helper()
	root, err := workspace.OpenRoot(t.TempDir())
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	ws, err := root.Create(nightcrier.NewID())
	must(t, err)
	t.Cleanup(func() { _ = ws.Close() })
	return ws, mask.New([]byte("key"), secret)
}

// answers are all that a cluster says to a fixed list of questions, and the errors.
func answers(t *testing.T, c Cluster) string {
	t.Helper()
	ctx, at := t.Context(), time.Unix(1700000000, 0).UTC()
	var out strings.Builder
	say := func(said any, err error) {
		if b, ok := said.([]byte); ok {
			said = string(b)
		}
		out.WriteString(strings.Join([]string{slog.AnyValue(said).String(), string(nightcrier.CodeOf(err)), errorText(err)}, " ") + "\n")
	}
	say(c.Now.UTC(), nil)
	pod := nightcrier.Resource{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "cart-1"}
	for range 3 {
		say(c.Reader.Get(ctx, pod))
	}
	say(c.Reader.List(ctx, "Pod", "shop", "", "", 500))
	say(c.Reader.Logs(ctx, "shop", "cart-1", "app", false, 10, 1000))
	say(c.Reader.Permissions(ctx, "shop"))
	say(c.Reader.(diagnose.ReleaseReader).Release(ctx, "shop", "sh.helm.release.v1.cart.v1"))
	say(c.Sources.Metrics(ctx, "up", at, at, time.Minute))
	say(c.Sources.MetricsLabel, nil)
	say(c.Sources.Lines == nil, nil)
	return out.String()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What a step read is read again from its record alone, word by word, and nobody is asked; what
// was not asked then is refused, which is not that it is not there.
func TestAStepIsPlayedAgain(t *testing.T) {
	ws, m := opened(t)
	cluster := &live{}
	metrics := 0
	begin := func(ws *workspace.Workspace) *Step {
		s, err := BeginStep(ws, nightcrier.NewID(), replay.Prepare, "1.0", m)
		must(t, err)
		return s
	}
	step := begin(ws)
	then, err := step.Keep(Cluster{Reader: cluster, Now: time.Unix(1700000000, 42), Sources: &diagnose.Sources{MetricsLabel: "ns",
		Metrics: func(context.Context, string, time.Time, time.Time, time.Duration) ([]byte, error) {
			metrics++
			return []byte(`[]`), nil
		}}})
	must(t, err)
	was := answers(t, then)
	tell := step.Audit(func(context.Context, journal.Request) error { return errors.New("full") })
	if err := tell(t.Context(), journal.Request{Verb: "get", Resource: "pods"}); err == nil || err.Error() != "full" {
		t.Errorf("what the audit says is lost: %v", err)
	}
	must(t, step.Close())

	packed, err := os.ReadFile(filepath.Join(ws.Dir(), replay.File(replay.Prepare)))
	must(t, err)
	if info, err := os.Stat(filepath.Join(ws.Dir(), replay.File(replay.Prepare))); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v, %v", info, err)
	}
	tape, err := replay.Read(packed, replay.Prepare)
	must(t, err)
	var requests []journal.Request
	if err := tape.Peek(replay.Requests, &requests); err != nil || len(requests) != 1 {
		t.Errorf("requests %+v, %v", requests, err)
	}
	asked, again := cluster.asked, begin(ws)
	now, err := again.Again(tape)
	must(t, err)
	is := answers(t, now)
	if masked := m.String(was); is != masked {
		t.Errorf("now:\n%s\nthen:\n%s", is, masked)
	}
	if strings.Contains(is, secret) || cluster.asked != asked || metrics != 1 {
		t.Errorf("it was asked %d times, or holds the secret:\n%s", cluster.asked-asked, is)
	}
	if _, err := now.Reader.List(t.Context(), "Pod", "other", "", "", 500); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Errorf("what was not asked: %v", err)
	}
	must(t, again.Close())
	if packed, err = os.ReadFile(filepath.Join(ws.Dir(), replay.File(replay.Prepare))); err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Read(packed, replay.Prepare); err != nil {
		t.Errorf("the record of the second is none: %v", err)
	}
}

// A cluster that cannot be read is one that cannot be read, also from its record.
func TestNothingToAsk(t *testing.T) {
	ws, m := opened(t)
	step, err := BeginStep(ws, nightcrier.NewID(), replay.Test, "1.0", m)
	must(t, err)
	got, err := step.Keep(Cluster{Now: time.Unix(1, 0)})
	if err != nil || got.Reader != nil || got.Sources != nil || got.Now.Unix() != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	must(t, step.Close())
	if _, err := step.Again(replay.Blank()); nightcrier.CodeOf(err) != nightcrier.Refused {
		t.Errorf("a record without a time: %v", err)
	}
}

// attemptIn begins the record of an attempt in a directory.
func attemptIn(t *testing.T, dir string, o AttemptOptions) (*Attempt, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	o.RunID, o.Mask = nightcrier.NewID(), mask.New([]byte("key"), secret).Bytes
	return BeginAttempt(root, o)
}

// ask puts one question to an attempt.
func ask(a *Attempt, name string, reached *int) (string, error) {
	var body []byte
	err := a.Take()(name, &body, func() error {
		*reached++
		body = []byte("the answer, with " + secret)
		return nil
	})
	return string(body), err
}

// What others answered an agent is answered again from the record, to the same attempt or, where it
// has no tape, from the first that has one; the record appears when it is whole.
func TestAnAttemptIsPlayedAgain(t *testing.T) {
	dir, reached := t.TempDir(), 0
	on := &data.Access{Prometheus: &data.Endpoint{URL: "http://prometheus.example:9090", NamespaceLabel: "namespace", Token: secret}, Namespaces: []string{"shop"}}
	a, err := attemptIn(t, dir, AttemptOptions{Attempt: 2, Sources: on})
	must(t, err)
	if said, err := ask(a, "one", &reached); err != nil || !strings.Contains(said, secret) || a.Sources != on {
		t.Errorf("live: %q, %v", said, err)
	}
	file := filepath.Join(dir, replay.File(replay.Agent(2)))
	if _, err := os.Stat(file); err == nil {
		t.Error("the record stands there before it is whole")
	}
	must(t, a.Close())
	for _, attempt := range []int{2, 1} {
		again, err := attemptIn(t, t.TempDir(), AttemptOptions{Attempt: attempt, From: dir, Sources: on})
		must(t, err)
		reached = 0
		said, err := ask(again, "one", &reached)
		if err != nil || reached > 0 || strings.Contains(said, secret) || !strings.HasPrefix(said, "the answer, with ‹secret:") {
			t.Errorf("attempt %d: %q, reached %d times, %v", attempt, said, reached, err)
		}
		if _, err := ask(again, "two", &reached); nightcrier.CodeOf(err) != nightcrier.Refused || reached > 0 {
			t.Errorf("what was not asked then: %v", err)
		}
		if s := again.Sources; s == nil || s.Prometheus == nil || s.Prometheus.URL != "http://"+replay.Host || s.Prometheus.Token != "" || s.Prometheus.NamespaceLabel != "namespace" || s.Loki != nil || s.Namespaces[0] != "shop" {
			t.Errorf("sources %+v", s)
		}
		must(t, again.Close())
	}
}

// Where a record cannot be read nothing is answered, and nobody is asked in its place.
func TestRecordsThatAnswerNothing(t *testing.T) {
	damaged, linked := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(filepath.Join(damaged, "record"), 0o700))
	must(t, os.WriteFile(filepath.Join(damaged, replay.File(replay.Agent(1))), []byte("no tape"), 0o600))
	must(t, os.Symlink(filepath.Join(damaged, "record"), filepath.Join(linked, "record")))
	for name, from := range map[string]string{"empty": t.TempDir(), "gone": filepath.Join(t.TempDir(), "gone"), "damaged": damaged, "behind a link": linked} {
		reached := 0
		a, err := attemptIn(t, t.TempDir(), AttemptOptions{Attempt: 1, From: from, Sources: &data.Access{Loki: &data.Endpoint{URL: "http://loki.example"}}})
		must(t, err)
		if _, err := ask(a, "one", &reached); a.Lacking == nil || nightcrier.CodeOf(err) != nightcrier.Refused || reached > 0 || a.Sources != nil {
			t.Errorf("%s: lacking %v, reached %d times, sources %v, %v", name, a.Lacking, reached, a.Sources, err)
		}
		must(t, a.Close())
	}
}

// An attempt writes below its workspace, whatever stands there.
func TestAnAttemptWritesInItsWorkspace(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	must(t, os.WriteFile(outside, []byte("of the host"), 0o600))
	for name, plant := range map[string]func(dir string) error{
		"a link in the place of the part": func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "record"), 0o700), os.Symlink(outside, filepath.Join(dir, replay.File(replay.Agent(1))+".part")))
		},
		"a link in the place of the file": func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "record"), 0o700), os.Symlink(outside, filepath.Join(dir, replay.File(replay.Agent(1)))))
		},
		"a link in the place of the directory": func(dir string) error { return os.Symlink(filepath.Dir(outside), filepath.Join(dir, "record")) },
	} {
		dir, reached := t.TempDir(), 0
		must(t, plant(dir))
		a, err := attemptIn(t, dir, AttemptOptions{Attempt: 1})
		if err == nil {
			_, err = ask(a, "one", &reached)
			must(t, errors.Join(err, a.Close()))
		}
		entries, _ := os.ReadDir(filepath.Dir(outside))
		if kept, err := os.ReadFile(outside); err != nil || !bytes.Equal(kept, []byte("of the host")) || len(entries) != 1 {
			t.Errorf("%s: outside stand %q and %d files, %v", name, kept, len(entries), err)
		}
	}
	var none *Attempt
	if none.Take() != nil || none.Close() != nil {
		t.Error("where nothing is kept something is")
	}
}
