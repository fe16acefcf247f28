package report

import (
	"testing"

	"nightcrier.dev/nightcrier"
)

const podJSON = `{"kind":"Pod","metadata":{"name":"cart-7d4b-x2x7q","namespace":"shop"},"spec":{"containers":[{"name":"app","resources":{"limits":{"memory":"64Mi"}}}]},` +
	`"status":{"containerStatuses":[{"restartCount":12,"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled","message":"line one\nline \"two\""}},"ready":false}]}}`

func recorded(id string) (Recorded, bool) {
	body, ok := map[string]string{
		"E1": podJSON,
		"E2": `{"kind":"Pod","metadata":{"name":"web-0"},"status":{"reason":"Evicted"}}`,
		"E4": `{"kind":"PodList","items":[` + podJSON + `,{"kind":"Pod","metadata":{"name":"pay-5f6bc-abc12","namespace":"shop"},"status":{"phase":"Failed","reason":"Evicted","message":"The node was low on resource: memory"}},` +
			`{"kind":"Pod","metadata":{"name":"cart-db-0","namespace":"shop"},"status":{"phase":"Pending","reason":"Unschedulable"}}]}`,
		"E5": `{"kind":"EventList","items":[{"metadata":{"name":"cart-7d4b-x2x7q.17a"},"involvedObject":{"kind":"Pod","name":"cart-7d4b-x2x7q"},"reason":"BackOff","message":"Back-off restarting failed container app"},` +
			`{"metadata":{"name":"pay-5f6bc-abc12.17b"},"involvedObject":{"kind":"Pod","name":"pay-5f6bc-abc12"},"reason":"FailedMount","message":"MountVolume.SetUp failed, cart waits"}]}`,
		"E6": `{"kind":"Deployment","metadata":{"name":"cart","namespace":"shop"},"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"app","image":"shop/cart:v2"}]}}},"status":{"phase":"Running"}}`,
		"E3": "2026-01-02 cart-7d4b-x2x7q connection refused to db:5432\n",
	}[id]
	return Recorded{Body: []byte(body)}, ok
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name     string
		text     string
		quote    string
		evidence string
		want     nightcrier.Check
	}{
		{"a pair as JSON has it", "cart was killed", "reason: OOMKilled", "E1", nightcrier.Seen},
		{"a pair as describe has it", "pod cart-7d4b-x2x7q", "Exit Code: 137", "E1", nightcrier.Seen},
		{"a pair with an equals sign", "cart", "exitCode=137", "E1", nightcrier.Seen},
		{"two lines of describe", "cart", "Last State: Terminated\n  Reason: OOMKilled\n  Exit Code: 137", "E1", nightcrier.Seen},
		{"a value in backticks", "container of cart-7d4b-x2x7q is `OOMKilled`", "", "E1", nightcrier.Seen},
		{"a log line", "cart cannot reach its database", "connection refused to db:5432", "E3", nightcrier.Seen},
		{"text inside a JSON string", "cart", `line one line "two"`, "E1", nightcrier.Seen},
		{"no object named, evidence about the target", "it was killed", "reason: OOMKilled", "E1", nightcrier.Seen},

		{"its own item of a list", "cart-7d4b-x2x7q was killed", "reason: OOMKilled", "E4", nightcrier.Seen},
		{"its own item, not named", "it was killed", "reason: OOMKilled", "E4", nightcrier.Seen},
		{"an event about it", "cart restarts", "Back-off restarting failed container", "E5", nightcrier.Seen},
		{"another object that the fact names", "Pod pay-5f6bc-abc12 was evicted", "reason: Evicted", "E4", nightcrier.Seen},
		{"a value that is also a field", "cart", "phase: Running", "E6", nightcrier.Seen},
		{"a number as a pair", "cart", "replicas: 3", "E6", nightcrier.Seen},

		{"cut inside a word, as we show it", "cart", "Back-off restarting fai…", "E5", nightcrier.Seen},
		{"cut inside a word, with three dots", "cart", "Back-off restarting fai...", "E5", nightcrier.Seen},
		{"cut between words", "cart", "Back-off restarting …", "E5", nightcrier.Seen},
		{"cut out of its middle", "cart", "Back-off rest… container app", "E5", nightcrier.Seen},

		{"cut inside a word that is another", "cart", "Back-off restarting fla…", "E5", nightcrier.Unseen},
		{"cut inside a number", "cart", "exitCode: 13…", "E1", nightcrier.Unseen},
		{"cut at its beginning, inside a word", "cart", "…ing failed container", "E5", nightcrier.Unseen},
		{"part of a word before a comma", "cart", "Back-off restarting fai, then more", "E5", nightcrier.Unseen},
		{"another item of a list", "cart-7d4b-x2x7q was evicted", "reason: Evicted", "E4", nightcrier.Unseen},
		{"another item of a list, not named", "it was evicted", "reason: Evicted", "E4", nightcrier.Unseen},
		{"an item of a neighbour with a longer name", "cart cannot be scheduled", "reason: Unschedulable", "E4", nightcrier.Unseen},
		{"an event about another that mentions it", "cart cannot mount", "MountVolume.SetUp failed", "E5", nightcrier.Unseen},
		{"two items mixed", "cart", "reason: OOMKilled\nreason: Evicted", "E4", nightcrier.Unseen},
		{"only names of fields", "cart", "metadata containers template", "E6", nightcrier.Unseen},
		{"only its own name", "cart-7d4b-x2x7q", "name: cart-7d4b-x2x7q", "E1", nightcrier.Unseen},
		{"only its own name, without a field", "cart", "cart-7d4b-x2x7q", "E1", nightcrier.Unseen},
		{"only its namespace and kind", "cart", "kind: Deployment\nnamespace: shop", "E6", nightcrier.Unseen},
		{"a sentence of small words around one that stands", "cart", "replicas is set too high", "E6", nightcrier.Unseen},
		{"words of a log in another order", "cart", "database refused connection", "E3", nightcrier.Unseen},

		{"another number", "cart", "Exit Code: 1", "E1", nightcrier.Unseen},
		{"one of two is wrong", "cart", "reason: OOMKilled\nexitCode: 1", "E1", nightcrier.Unseen},
		{"one of two in backticks is wrong", "cart is `OOMKilled` at `128Mi`", "", "E1", nightcrier.Unseen},
		{"not in the evidence", "cart", "reason: Evicted", "E1", nightcrier.Unseen},
		{"evidence about another object", "cart-7d4b-x2x7q was evicted", "reason: Evicted", "E2", nightcrier.Unseen},
		{"evidence about another object, unnamed", "it was evicted", "reason: Evicted", "E2", nightcrier.Unseen},
		{"another pod than the evidence's", "pod pay-5f6-abc12 was killed", "reason: OOMKilled", "E1", nightcrier.Unseen},
		{"no such evidence", "cart", "reason: OOMKilled", "E9", nightcrier.Unseen},
		{"no evidence", "cart", "reason: OOMKilled", "", nightcrier.Unseen},
		{"nothing quoted", "cart was killed by the kernel", "", "E1", nightcrier.Unseen},
		{"a trivial value", "cart", "137", "E1", nightcrier.Unseen},
		{"a trivial word", "cart", "Pod", "E1", nightcrier.Unseen},
		{"only punctuation", "cart", "…", "E1", nightcrier.Unseen},
		{"turned round", "cart", "not OOMKilled", "E1", nightcrier.Unseen},
		{"another flag", "cart", "ready: true", "E1", nightcrier.Unseen},
		{"part of a word", "cart", "reason: OOMKill", "E1", nightcrier.Unseen},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := nightcrier.Report{
				Source: "agent", Target: nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"},
				Facts: []nightcrier.Fact{{ID: "FACT-1", Text: c.text, Quote: c.quote, Check: nightcrier.Verified}},
			}
			if c.evidence != "" {
				r.Facts[0].Evidence = []string{c.evidence}
			}
			Check(&r, recorded)
			if r.Facts[0].Check != c.want {
				t.Errorf("got %s, want %s", r.Facts[0].Check, c.want)
			}
			if share := map[nightcrier.Check]float64{nightcrier.Seen: 1}[c.want]; r.CheckedShare != share {
				t.Errorf("checked share %v", r.CheckedShare)
			}
		})
	}
}

func TestOnlyRulesVerify(t *testing.T) {
	fact := nightcrier.Fact{ID: "FACT-1", Text: "cart", Check: nightcrier.Verified, Evidence: []string{"E1"}}
	gone := fact
	gone.Evidence = []string{"E9"}
	for source, want := range map[string]nightcrier.Check{"builtin": nightcrier.Verified, "agent": nightcrier.Unseen} {
		r := nightcrier.Report{Source: source, Facts: []nightcrier.Fact{fact, gone}}
		Check(&r, recorded)
		if r.Facts[0].Check != want || r.Facts[1].Check != nightcrier.Unseen {
			t.Errorf("%s: %s and %s", source, r.Facts[0].Check, r.Facts[1].Check)
		}
	}
}

func TestCheckedShare(t *testing.T) {
	r := nightcrier.Report{Source: "agent", Target: nightcrier.Object{Name: "cart"}, Facts: []nightcrier.Fact{
		{Text: "a", Quote: "reason: OOMKilled", Evidence: []string{"E1"}}, {Text: "b"}, {Text: "c"}, {Text: "d"},
	}}
	Check(&r, recorded)
	if r.CheckedShare != 0.25 {
		t.Errorf("%v", r.CheckedShare)
	}
	r = nightcrier.Report{}
	if Check(&r, recorded); r.CheckedShare != 0 {
		t.Errorf("no facts: %v", r.CheckedShare)
	}
}

func TestNormal(t *testing.T) {
	for in, want := range map[string]string{
		"Exit Code:   137": "exit code 137", `"exitCode":137`: "exit code 137", "CrashLoopBackOff": "crash loop back off", "OOMKilled": "oomkilled", "": "", " - ": "", "‹secret:3f9a›": "secret 3f9a",
	} {
		if got := normalText(in); got != want {
			t.Errorf("normalText(%q) = %q, want %q", in, got, want)
		}
	}
}
