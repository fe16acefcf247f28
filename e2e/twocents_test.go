package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/price"
	"nightcrier.dev/nightcrier/internal/record/store"
)

// asksOn is an agent that asks its model again and again until it is refused.
const asksOn = `exec bash -c '
at=${ANTHROPIC_BASE_URL#http://}
body="{\"model\":\"` + paidModel + `\",\"max_tokens\":60,\"messages\":[{\"role\":\"user\",\"content\":\"on and on, $INCIDENT_ID\"}]}"
while exec 3<>/dev/tcp/${at%:*}/${at##*:}; do
	printf "POST /v1/messages HTTP/1.1\r\nHost: guard\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" "$ANTHROPIC_API_KEY" ${#body} "$body" >&3
	read -r _ status _ <&3
	cat <&3 >/dev/null
	exec 3>&-
	[ "$status" = 200 ] || exit 1
done'
`

// paidModel is a model whose price is known.
const paidModel = "claude-haiku-4-5"

// biller is a model's API that keeps its own bill. Each call's request has another
// number of tokens, by which it is found on record. Some calls stop when they are billed
// and not answered, until the test lets them go on.
type biller struct {
	price   price.Price
	stops   map[int]bool
	stopped chan string // the incident that a call is for
	goOn    chan struct{}
	over    chan struct{} // the test is

	mu   sync.Mutex
	bill []price.Money // of the call whose request has as many tokens as its place, from 1
}

func (b *biller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		MaxTokens int64 `json:"max_tokens"`
		Messages  []struct{ Content string }
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &ask) != nil || len(ask.Messages) != 1 {
		http.Error(w, "nonsense", http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	n := len(b.bill) + 1
	used := price.Tokens{Input: int64(n), Output: min(ask.MaxTokens, int64(20+n%40))}
	b.bill = append(b.bill, b.price.Of(used))
	b.mu.Unlock()
	if b.stops[n] {
		select {
		case b.stopped <- strings.TrimPrefix(ask.Messages[0].Content, "on and on, "):
		case <-b.over:
		}
		select {
		case <-b.goOn:
		case <-b.over:
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"m","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":"on"}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":%d}}`,
		paidModel, used.Input, used.Output)
}

// stop waits until a call stops, and returns the incident that it is for.
func (b *biller) stop(t *testing.T) string {
	t.Helper()
	select {
	case incident := <-b.stopped:
		return incident
	case <-time.After(patience):
		t.Fatal("the agents do not ask")
	}
	return ""
}

// TestTwoCents: five runs at once share two cents. The server is killed in the middle of a
// call together with that call's worker, and once more alone; the next server takes the
// others over and has the lost one investigate again. Then a worker is killed alone, under
// a server that lives. Never more than two cents is billed, what is on record as spent is
// the bill to the billionth, and what is held are the calls whose workers died and nothing
// else.
func TestTwoCents(t *testing.T) {
	t.Parallel()
	const limit = price.Dollar / 50
	p, _ := price.Defaults().Of(nightcrier.Anthropic, paidModel)
	api := &biller{price: p, stops: map[int]bool{4: true, 9: true, 14: true}, stopped: make(chan string), goOn: make(chan struct{}), over: make(chan struct{})}
	upstream := httptest.NewServer(api)
	defer upstream.Close()
	defer close(api.over)
	s := newSite(t, "")
	s.script(asksOn)
	s.clusters = []string{"demo-east", "demo-north", "demo-west", "demo-south", "demo-middle"}
	s.env["NIGHTCRIER_MAX_CONCURRENT_AGENTS"] = strconv.Itoa(len(s.clusters))
	s.env["ANTHROPIC_BASE_URL"], s.env["ANTHROPIC_API_KEY"], s.env["AGENT_MODEL"] = upstream.URL, "sk-ant-of-a-test", paidModel
	s.env["NIGHTCRIER_BUDGET_PER_DAY_USD"] = "0.02"
	v := s.serve(nil).ready()
	for _, name := range s.clusters {
		s.push(name, fault(t, oom))
	}
	var lost []string // the runs whose workers are killed
	first := api.stop(t)
	s.eventually(func() string { // all are at it
		if n := s.workersMade(); n != len(s.clusters) {
			return fmt.Sprintf("%d agents are at work", n)
		}
		return ""
	})
	lost = append(lost, s.runOf(first))
	v.kill()
	s.killWorker(lost[0])
	api.goOn <- struct{}{}
	v = s.serve(nil).ready()
	api.stop(t)
	v.kill()
	api.goOn <- struct{}{}
	v = s.serve(nil).ready()
	lost = append(lost, s.runOf(api.stop(t)))
	s.killWorker(lost[1])
	api.goOn <- struct{}{}
	s.ended()
	v.term()

	s.look(func(st *store.Store) {
		list := s.incidents(st)
		for _, inc := range list {
			if inc.FailureClass != nightcrier.FailBudget || !strings.Contains(inc.FailureReason, "budget.per_day_usd is reached") {
				t.Errorf("an incident ended as %s (%s): %s", inc.Status, inc.FailureClass, inc.FailureReason)
			}
		}
		if len(list) != len(s.clusters) {
			t.Errorf("%d incidents", len(list))
		}
	})
	var billed, known price.Money
	settled, held := s.onRecord()
	for i, amount := range api.bill {
		billed += amount
		if was, ok := settled[int64(i+1)]; ok {
			if known += was; was != amount {
				t.Errorf("call %d is on record for %s, and billed for %s", i+1, was, amount)
			}
		}
	}
	var unsettled price.Money
	for run, amount := range held {
		if unsettled += amount; !slices.Contains(lost, run) {
			t.Errorf("%s are held for run %s, whose workers lived", amount, run)
		}
	}
	if billed > limit || known+unsettled > limit || unsettled == 0 || len(settled) != len(api.bill)-len(lost) || len(settled) < 14 {
		t.Errorf("%d calls billed for %s of %s; on record are %d for %s, and %s held", len(api.bill), billed, limit, len(settled), known, unsettled)
	}
	t.Logf("%d calls billed for %s of %s; %d settled for %s, %s held", len(api.bill), billed, limit, len(settled), known, unsettled)
}

// workersMade is how many workers have been started.
func (s *site) workersMade() int {
	s.Helper()
	pids, err := filepath.Glob(filepath.Join(s.root, ".workers", "*", "pid"))
	s.must(err)
	return len(pids)
}

// killWorker kills the worker of a run's latest attempt.
func (s *site) killWorker(run string) {
	s.Helper()
	attempt := 1
	for s.there(run, attempt+1) {
		attempt++
	}
	s.must(syscall.Kill(s.workerPID(run, attempt), syscall.SIGKILL))
}

// there reports whether a run has had so many attempts.
func (s *site) there(run string, attempt int) bool {
	_, err := os.Stat(filepath.Join(s.root, ".workers", fmt.Sprintf("%s-%d", run, attempt), "pid"))
	return err == nil
}

// runOf is the run of an incident.
func (s *site) runOf(incident string) (run string) {
	s.Helper()
	s.look(func(st *store.Store) {
		for _, inc := range s.incidents(st) {
			if inc.ID == incident {
				run = inc.RunID
			}
		}
	})
	if run == "" {
		s.Fatalf("no incident %q", incident)
	}
	return run
}

// onRecord is what calls were settled for, by the tokens of their requests, and what is
// held for those that were not, by run.
func (s *site) onRecord() (settled map[int64]price.Money, held map[string]price.Money) {
	s.Helper()
	files, err := filepath.Glob(filepath.Join(s.root, "budget", "*.ledger"))
	s.must(err)
	type record struct {
		Op, Call, Run string
		Money         price.Money
		Used          price.Tokens
	}
	open := map[string]record{}
	settled, held = map[int64]price.Money{}, map[string]price.Money{}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		s.must(err)
		for line := range strings.Lines(string(raw)) {
			var r record
			_, text, _ := strings.Cut(line, " ")
			if json.Unmarshal([]byte(text), &r) != nil {
				continue // cut by a death
			}
			switch r.Op {
			case "reserve":
				open[r.Call] = r
			case "settle":
				settled[r.Used.Input] = r.Money
				delete(open, r.Call)
			case "release":
				delete(open, r.Call)
			}
		}
	}
	for _, r := range open {
		held[r.Run] += r.Money
	}
	return settled, held
}
