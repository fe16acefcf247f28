package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent"
	"nightcrier.dev/nightcrier/internal/app"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/record/store"
	"nightcrier.dev/nightcrier/internal/test/clitest"
)

// breakerSite is a site whose agent is a real CLI, by a link of its own, with a
// model that plays the scenario "it".
type breakerSite struct {
	*site
	t     *testing.T
	model *fakemodel.Server
	cli   agent.Executor
	link  string
	ahead atomic.Int64
	app   *app.App
	sent  int
}

func newBreakerSite(t *testing.T, cli agent.Executor, timeout string) *breakerSite {
	t.Helper()
	real := clitest.CLI(t, cli.Command)
	b := &breakerSite{site: newBurstSite(t, ""), t: t, model: fakemodel.New(t), cli: cli, link: filepath.Join(t.TempDir(), cli.Command)}
	b.must(os.Symlink(real, b.link))
	for k, v := range map[string]string{
		"NIGHTCRIER_MAX_CONCURRENT_AGENTS": "1", "NIGHTCRIER_AGENT_EXECUTOR": cli.Name, "NIGHTCRIER_AGENT_COMMAND": b.link, "AGENT_SCRIPT_PATH": "",
		"NIGHTCRIER_AGENT_API_KEY": realKey, "NIGHTCRIER_AGENT_BASE_URL": b.model.URL("it"), "NIGHTCRIER_AGENT_MODEL": "scripted", "AGENT_TIMEOUT": timeout,
	} {
		b.env[k] = v
	}
	b.app = b.site.app(func(o *app.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	})
	return b
}

// investigate lets n faults happen, one after the other, and returns the classes
// that their investigations failed with.
func (b *breakerSite) investigate(n int) (classes []nightcrier.FailureClass) {
	b.Helper()
	for range n {
		b.sent++
		dec, err := b.app.Deliver(b.t.Context(), delivery(fmt.Sprintf("c%d", b.sent), "cart", "critical"))
		b.must(err)
		var inc nightcrier.Incident
		b.eventually(func() string {
			if inc, err = b.app.Store().Incident(b.t.Context(), dec.Incident.ID); err != nil || inc.Status.Open() {
				return fmt.Sprintf("incident %d is %s, %v", b.sent, inc.Status, err)
			}
			return ""
		})
		classes = append(classes, inc.FailureClass)
	}
	return classes
}

// broken is the executor's breaker.
func (b *breakerSite) broken() store.BreakerState {
	b.Helper()
	list, err := b.app.Store().Breakers(b.t.Context())
	b.must(err)
	for _, s := range list {
		if s.Executor == b.cli.Name {
			return s
		}
	}
	return store.BreakerState{}
}

// What makes an executor unusable is told apart from what ends one investigation,
// on each real CLI; and a probe finds out that it works again.
func TestBreakerOnTheRealCLIs(t *testing.T) {
	t.Parallel()
	failure := func(status int, headers map[string]string) func(*breakerSite) {
		return func(b *breakerSite) {
			b.model.MustAdd(b, "it", fakemodel.Scenario{Steps: []fakemodel.Step{{Error: &fakemodel.Failure{Status: status, Message: "no", Headers: headers}, Repeat: true}}})
		}
	}
	mended := func(b *breakerSite) {
		b.model.MustAdd(b, "it", fakemodel.Scenario{Steps: []fakemodel.Step{{Text: "There is nothing to be seen.", Repeat: true}}})
	}
	for class, fault := range map[nightcrier.FailureClass]struct{ breaks, mends func(*breakerSite) }{
		nightcrier.FailAuth:  {failure(401, map[string]string{"x-should-retry": "false"}), mended},
		nightcrier.FailQuota: {failure(429, map[string]string{"retry-after": "3600"}), mended},
		nightcrier.FailStart: {func(b *breakerSite) { b.must(os.Rename(b.link, b.link+".gone")) }, func(b *breakerSite) {
			mended(b)
			b.must(os.Rename(b.link+".gone", b.link))
		}},
	} {
		for _, cli := range agent.CLIs() {
			if class == nightcrier.FailStart && cli.Name != config.ClaudeCode {
				continue // what is not there is not told by its own words
			}
			t.Run(string(class)+"/"+cli.Name, func(t *testing.T) {
				t.Parallel()
				b := newBreakerSite(t, cli, "240")
				fault.breaks(b)
				times := 3
				if cli.Name == "gemini" || cli.Name == "goose" {
					times = 1 // how they say it is their own; what follows is not
				}
				for _, got := range b.investigate(times) {
					if got != class {
						t.Errorf("an investigation failed with %q", got)
					}
				}
				if times == 1 {
					return
				}
				if s := b.broken(); !s.Open || s.Failures != 3 || s.LastError == "" {
					t.Fatalf("breaker %+v", s)
				}
				fault.mends(b)
				b.ahead.Store(int64(61 * time.Second)) // a probe is due
				b.investigate(1)
				if s := b.broken(); s.Open || s.Failures != 0 {
					t.Errorf("after a probe that worked: %+v", s)
				}
			})
		}
	}
}

// An agent that is too late says nothing of its executor. Each CLI is ended by the same
// clock of ours: one that gets so far stands for all.
func TestBreakerTakesNoNoticeOfTimeouts(t *testing.T) {
	t.Parallel()
	b := newBreakerSite(t, agent.CLIs()[0], "3")
	b.model.MustAdd(b, "it", fakemodel.Scenario{Steps: []fakemodel.Step{{Text: "Never.", Hold: "for ever"}}})
	for _, got := range b.investigate(3) {
		if got != nightcrier.FailTimeout {
			t.Errorf("an investigation failed with %q", got)
		}
	}
	if s := b.broken(); s.Open || s.Failures > 0 {
		t.Errorf("breaker %+v", s)
	}
}
