package ui_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/record/journal"
	"nightcrier.dev/nightcrier/internal/test/browsertest"
)

// hostile is what somebody writes into a log who hopes that it is read at night.
var hostile = []string{
	`<script>document.title="owned"</script>`, `<img src=x onerror="document.title='owned'">`, `"><svg onload=document.title='owned'>`, "javascript:document.title='owned'",
	`[click](javascript:document.title='owned')`, "</pre></details><style>body{display:none}</style>", "\u202egnp.exe\u202c", "\x1b[31mred\x1b[0m\x1b]8;;http://evil.example\x07link", "\x00\x08", "{{.Form}}", "' onfocus='document.title=1' x='",
}

// hostileReport says hostile things wherever a report says anything.
func hostileReport(said string) nightcrier.Report {
	o := nightcrier.Object{Kind: "Deployment", Namespace: said, Name: said}
	return nightcrier.Report{
		Cluster: said, CreatedAt: nightcrier.Event{}.ReceivedAt, Source: "agent", Valid: true, Verdict: nightcrier.VerdictFault, Severity: "P1", Category: said, Impact: said, Target: o, Executor: said,
		RootCause:  &nightcrier.RootCause{Cause: said, Object: o, Summary: said, Confidence: nightcrier.High},
		Hypotheses: []nightcrier.Hypothesis{{ID: "H1", Statement: said, Cause: said, Object: o, For: []string{said}, Falsification: nightcrier.Falsification{Command: said, IfTrue: said, IfFalse: said, Shown: said, Evidence: said, Why: said}}},
		Facts:      []nightcrier.Fact{{ID: "FACT-1", Text: said, Source: said, Quote: said, Evidence: []string{"E1", said}, Check: nightcrier.Seen}},
		Inferences: []nightcrier.Inference{{ID: said, Text: said, BasedOn: []string{said}, WrongIf: said}},
		Changes:    []nightcrier.Change{{What: said, Who: said, Details: []string{said}, Evidence: []string{said}}},
		Actions:    []nightcrier.Action{{Priority: 1, Action: said, Command: "kubectl get pod " + said, Outcome: said, Risk: said}, {Priority: 2, Action: said}},
		NotChecked: []nightcrier.NotChecked{{What: said, Why: said}}, Consequences: []nightcrier.Consequence{{Cause: said, Object: o, Statement: said, Because: o}},
		Runbooks: []nightcrier.Runbook{{Title: said, Source: said, Text: said}, {Title: said, Source: said, Problem: said}}, Problems: []string{said},
	}
}

// TestHostileTextIsInert shows what attackers wrote, in every place where a page shows anything,
// while it happens and when it is over.
func TestHostileTextIsInert(t *testing.T) {
	w := newWorld(t)
	said := strings.Join(hostile, " ") + strings.Repeat("A", 1<<20)
	w.body = []byte(strings.Join(hostile, "\n") + "\n" + strings.Repeat("B", 1<<20))
	inc := w.fault("prod", "cart", strings.Join(hostile, " "), nightcrier.Critical)
	run := w.begin()
	tab := browsertest.Open(t).Tab(browsertest.Desk)
	tab.Go(w.ui.LoginLink(w.http.URL))
	tab.Await(".row")
	tab.Go(w.http.URL + "/incidents/" + inc.ID)
	tab.AwaitJS(`document.getElementById("link").textContent == "Live."`)
	w.say(run.ID, journal.OfMessage(journal.Message{Role: "assistant", Text: said}), journal.OfToolCall(journal.ToolCall{ID: "1", Tool: hostile[0], Command: said}),
		journal.OfToolResult(journal.ToolResult{ID: "1", Text: said, Bytes: len(said)}), journal.OfDenial(journal.Denial{Tool: hostile[1], Command: said, Message: said}))
	tab.AwaitJS(`document.querySelectorAll("#timeline .entry").length >= 4`)
	check := func(where string) {
		t.Helper()
		var title string
		if tab.Eval("document.title", &title); strings.Contains(title, "owned") || title == "1" {
			t.Errorf("%s: a script of others ran", where)
		}
		var found int
		if tab.Eval(`document.querySelectorAll("main script, main img, main style, main svg[onload], main [onerror], main [onfocus], main iframe, a[href^='javascript:']").length`, &found); found > 0 {
			t.Errorf("%s: %d elements of others", where, found)
		}
		var text string
		if tab.Eval(`document.body.innerText`, &text); strings.ContainsAny(text, "\x1b\u202e\x00\x08") {
			t.Errorf("%s: hidden characters are shown", where)
		}
		var wide int
		if tab.Eval(`document.documentElement.scrollWidth - innerWidth`, &wide); wide > 0 {
			t.Errorf("%s: it is %d pixels wider than the screen", where, wide)
		}
		if all := tab.Complaints(); len(all) > 0 {
			t.Errorf("%s: %q", where, all)
		}
	}
	check("live")
	w.end(run, hostileReport(strings.Join(hostile, " ")))
	tab.Await(".card .first")
	check("when it has ended")
	for _, path := range []string{"/incidents", "/incidents/" + inc.ID, "/incidents/" + inc.ID + "/evidence/E1?fact=FACT-1", "/incidents/" + inc.ID + "/evidence/E1?whole", "/runs", "/runs/" + run.ID, "/suppressed", "/incidents?text=" + "%22%3E%3Cscript%3Edocument.title%3D1%3C/script%3E"} {
		tab.Go(w.http.URL + path)
		tab.Await("main")
		check(path)
	}
}

// TestALiveRunIsFollowed watches an agent at work, through a connection that drops and a server
// that is restarted in the middle: nothing is missed, and nothing is shown twice.
func TestALiveRunIsFollowed(t *testing.T) {
	w := newWorld(t)
	inc := w.fault("prod", "cart", "", nightcrier.Critical)
	run := w.begin()
	message := func(n int) {
		w.say(run.ID, journal.OfMessage(journal.Message{Role: "assistant", Text: fmt.Sprintf("thought %d.", n)}))
	}
	message(1)
	tab := browsertest.Open(t).Tab(browsertest.Phone)
	tab.Go(w.ui.LoginLink(w.http.URL))
	tab.Await(".row.open")
	tab.Go(w.http.URL + "/incidents/" + inc.ID)
	shows := func(n int) {
		t.Helper()
		tab.AwaitJS(fmt.Sprintf(`[...document.querySelectorAll("#timeline .entry")].filter(e => /thought \d+\./.test(e.textContent)).map(e => e.textContent.match(/thought (\d+)\./)[1]).join() == %q`, numbers(n)))
	}
	shows(1)
	tab.AwaitJS(`document.getElementById("link").textContent == "Live."`)
	message(2)
	shows(2)

	w.http.CloseClientConnections() // the connection drops
	message(3)
	shows(3)

	stopped := w.ui
	w.ui = nil
	gone := w.http.Config.Handler
	w.http.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "stopped", http.StatusBadGateway) })
	stopped.EndStreams()
	message(4)
	tab.AwaitJS(`document.getElementById("link").classList.contains("off")`)
	w.start()
	w.http.Config.Handler = gone
	shows(4)
	message(5)
	shows(5)

	tab.Click(".live button.danger") // the browser asks, and the tab says yes
	tab.AwaitJS(`document.querySelector("#runstate").textContent.includes("being cancelled")`)
	if cancelled, cause, err := w.store.CancelRequested(t.Context(), run.ID); err != nil || !cancelled || cause != "cancelled on the page by local" {
		t.Errorf("cancel: %v %q %v", cancelled, cause, err)
	}
	w.end(run, hostileReport("the disk is full"))
	tab.Await(".card .first")
	if all := tab.Complaints(); len(all) > 0 {
		t.Errorf("the page complained: %q", all)
	}
}

func numbers(n int) string {
	var all []string
	for i := 1; i <= n; i++ {
		all = append(all, fmt.Sprint(i))
	}
	return strings.Join(all, ",")
}

// TestTheListIsLive looks at the list while faults arrive, with the keyboard alone.
func TestTheListIsLive(t *testing.T) {
	w := newWorld(t)
	tab := browsertest.Open(t).Tab(browsertest.Desk)
	tab.Go(w.ui.LoginLink(w.http.URL))
	tab.AwaitJS(`document.body.innerText.includes("All quiet") && document.getElementById("link").textContent == "Live."`)
	w.fault("prod", "cart", "", nightcrier.Critical)
	tab.Await(".row")
	w.fault("prod", "ledger", "", nightcrier.Warning)
	tab.AwaitJS(`document.querySelectorAll(".row").length == 2`)
	tab.Press("j")
	tab.Press("j")
	tab.Press("k")
	tab.Press("j")
	w.fault("prod", "audit", "", nightcrier.Warning) // the focus stays where it is
	tab.AwaitJS(`document.querySelectorAll(".row").length == 3 && document.activeElement.textContent == "shop/Deployment/cart"`)
	tab.Press("?")
	tab.Await("#keys[open]")
	tab.Click("#keys button")
	tab.Press("/")
	tab.AwaitJS(`document.activeElement.name == "text"`)
	tab.Eval(`document.activeElement.value = ""`, nil) // a real key would not have been typed as well
	tab.Type("input[name=text]", "ledger")
	tab.Press("Enter")
	tab.AwaitJS(`document.querySelectorAll(".row").length == 1 && location.search.includes("text=ledger")`)
	tab.AwaitJS(`!document.querySelector("[data-keys]").hidden`)
	tab.Press("j")
	tab.Press("Enter")
	tab.AwaitJS(`location.pathname.startsWith("/incidents/") && document.querySelector("h1").textContent.includes("ledger") && !document.querySelector("[data-keys]").hidden`)
	tab.Press("u")
	tab.AwaitJS(`location.pathname == "/incidents"`)
}
