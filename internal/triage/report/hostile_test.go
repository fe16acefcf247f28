package report

import (
	"fmt"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// Large evidence, cited by many facts that quote many values: comparing all with
// all would hold a server up for hours, and again after each start.
func TestCheckingIsBounded(t *testing.T) {
	if testproc.Raced() {
		testproc.Rerun(t) // one goroutine has nothing to race with
		return
	}
	body := []byte(strings.Repeat(`{"name":"cart-7d4b-x2x7q","message":"some words that stand here and there in logs"}`+"\n", 5_000))
	var ids []string
	for i := range 100 {
		ids = append(ids, fmt.Sprintf("E%d", i+1))
	}
	var facts []nightcrier.Fact
	for i := range maxItems {
		facts = append(facts, nightcrier.Fact{ID: fmt.Sprintf("FACT-%d", i+1), Text: "cart-7d4b-x2x7q", Evidence: append(ids, ids...),
			Quote: strings.Repeat("logs some message, ", 200)})
	}
	r := nightcrier.Report{Facts: facts}
	Check(&r, func(string) (Recorded, bool) { return Recorded{Body: body}, true })
	if r.Facts[maxItems-1].Check != nightcrier.Unseen {
		t.Error("what was not compared counts as seen")
	}
}

// Ten thousand facts that each cite a list of thousands.
func TestCheckingManyFactsIsBounded(t *testing.T) {
	if testproc.Raced() {
		testproc.Rerun(t) // one goroutine has nothing to race with
		return
	}
	list := []byte(`{"items":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"Pod","metadata":{"name":"cart-7d4b-x2x7q"},"status":{"reason":"Evicted"}},`, 4_000), ",") + `]}`)
	r := nightcrier.Report{Facts: make([]nightcrier.Fact, 10_000)}
	for i := range r.Facts {
		r.Facts[i] = nightcrier.Fact{Text: "cart-7d4b-x2x7q", Quote: "reason: OOMKilled", Evidence: []string{"E1", "E2", "E3"}}
	}
	r.Facts[0].Quote = "reason: Evicted"
	Check(&r, func(string) (Recorded, bool) { return Recorded{Body: list}, true })
	if r.Facts[0].Check != nightcrier.Seen || r.Facts[len(r.Facts)-1].Check != nightcrier.Unseen {
		t.Errorf("%s and %s", r.Facts[0].Check, r.Facts[len(r.Facts)-1].Check)
	}
}

// A failure repeats what it was asked for, and an agent asks for what it likes: its
// own words come back to it as evidence. These are a real API server's.
func TestTheAskersWordsShowNothing(t *testing.T) {
	failure := func(message, reason string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"details":{"name":"x","kind":"pods"},"code":400}`, message, reason)
	}
	forged := Recorded{Asked: "kubectl get pods cart-7d4b-x2x7q.reason.oomkilled.exit.code.137 -n shop",
		Body: []byte(failure(`pods "cart-7d4b-x2x7q.reason.oomkilled.exit.code.137" not found`, "NotFound"))}
	container := Recorded{Asked: "kubectl logs cart-7d4b-x2x7q -n shop --container=oomkilled-exit-code-137",
		Body: []byte(failure("container oomkilled-exit-code-137 is not valid for pod cart-7d4b-x2x7q", "BadRequest"))}
	waiting := Recorded{Asked: "kubectl logs cart-7d4b-x2x7q -n shop --container=app",
		Body: []byte(failure(`container "app" in pod "cart-7d4b-x2x7q" is waiting to start: CrashLoopBackOff`, "BadRequest"))}
	plain := Recorded{Asked: "kubectl logs oomkilled-exit-code-137.cart-7d4b-x2x7q -n shop", Body: []byte("oomkilled-exit-code-137.cart-7d4b-x2x7q: 404 page not found")}
	for _, c := range []struct {
		name, quote string
		kept        Recorded
		want        nightcrier.Check
	}{
		{"a name", "reason: OOMKilled", forged, nightcrier.Unseen},
		{"a name, with a number", "OOMKilled, exit code 137", forged, nightcrier.Unseen},
		{"a name, and words that do stand", "OOMKilled, not found", forged, nightcrier.Unseen},
		{"a name within its message's frame", `status: Failure, message: pods cart-7d4b-x2x7q reason OOMKilled`, forged, nightcrier.Unseen},
		{"a container", "container OOMKilled", container, nightcrier.Unseen},
		{"a container, small words around it", "the OOMKilled exit code 137 is", container, nightcrier.Unseen},
		{"a text that is no Status", "OOMKilled exit code 137", plain, nightcrier.Unseen},
		{"the kind of what was asked for", "kind: pods", forged, nightcrier.Unseen},

		{"that it is not there", `exit.code.137" not found`, forged, nightcrier.Seen},
		{"what the cluster says of it", "is waiting to start: CrashLoopBackOff", waiting, nightcrier.Seen},
		{"and all of the message", `container "app" in pod "cart-7d4b-x2x7q" is waiting to start: CrashLoopBackOff`, waiting, nightcrier.Seen},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := nightcrier.Report{Source: "agent", Target: nightcrier.Object{Name: "cart"}, Facts: []nightcrier.Fact{
				{ID: "FACT-1", Text: "Pod cart-7d4b-x2x7q was killed", Quote: c.quote, Evidence: []string{"E1"}}}}
			if Check(&r, func(string) (Recorded, bool) { return c.kept, true }); r.Facts[0].Check != c.want {
				t.Errorf("%q is %s", c.quote, r.Facts[0].Check)
			}
		})
	}
}
