package slack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/face/notify"
)

const secretPath = "/services/T000/B000/s3cr3tpath"

// serve answers each POST with handler and returns a webhook for it.
func serve(t *testing.T, handler http.HandlerFunc) *Webhook {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	return webhook(t, srv.URL, time.Minute)
}

func webhook(t *testing.T, base string, timeout time.Duration) *Webhook {
	t.Helper()
	w, err := New(base+secretPath, Options{Timeout: timeout,
		Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "‹secret›") }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func incident() nightcrier.Incident {
	start := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	return nightcrier.Incident{ID: "0196-a", Cluster: "prod-1", Status: nightcrier.Resolved, Severity: nightcrier.Critical, FaultType: "CrashLoop",
		Resource:  nightcrier.Resource{Kind: "Pod", Namespace: "shop", Name: "cart-0"},
		StartedAt: start, CompletedAt: start.Add(83 * time.Second)}
}

func reportOf() *nightcrier.Report {
	return &nightcrier.Report{Verdict: nightcrier.VerdictFault, Severity: "P1", CheckedShare: 0.75, Facts: make([]nightcrier.Fact, 4),
		RootCause: &nightcrier.RootCause{Summary: "The container exceeds its memory limit.", Confidence: nightcrier.High,
			Object: nightcrier.Object{Kind: "Deployment", Namespace: "shop", Name: "cart"}},
		Actions: []nightcrier.Action{{Priority: 3, Action: "third"}, {Priority: 1, Action: "raise the limit"}, {Priority: 2, Action: "second"}, {Priority: 4, Action: "fourth"}}}
}

func outcomeMessage() notify.Message {
	rep := reportOf()
	rep.AuditHead = strings.Repeat("3f9a", 16)
	return notify.OutcomeOf(incident(), "r", rep, "http://127.0.0.1:8080/i/0196-a")
}

func TestAnEarlierIncidentIsOneLine(t *testing.T) {
	var got string
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = string(raw)
	})
	for name, c := range map[string]struct {
		old      *nightcrier.Recalled
		want     []string
		unwanted []string
	}{
		"none":  {unwanted: []string{"Seen before"}},
		"holds": {old: &nightcrier.Recalled{IncidentID: "i1", Summary: "too little memory.", Holds: true}, want: []string{"Seen before on 0001-01-01 00:00 UTC (incident i1): too little memory; that still holds."}, unwanted: []string{"Noted"}},
		"no longer": {old: &nightcrier.Recalled{Summary: "x", Notes: []nightcrier.Note{{Text: "newest\nof them"}, {Text: "older"}}}, want: []string{"no longer holds. Noted then: newest of them"},
			unwanted: []string{"older"}},
		"hostile": {old: &nightcrier.Recalled{Summary: "<!channel> hunter2 " + strings.Repeat("x", 9000), Notes: []nightcrier.Note{{Text: "<http://evil|click> \u202e hunter2" + strings.Repeat("y", 9000)}}},
			want: []string{"‹secret›", "Noted then"}, unwanted: []string{"<!channel>", "<http", "\\u003c!", "\u202e", "hunter2", strings.Repeat("x", 300)}},
	} {
		m := outcomeMessage()
		m.Report.Recalled = c.old
		if res := w.Send(t.Context(), m); res.Verdict != notify.Accepted {
			t.Fatalf("%s: %+v", name, res)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, got)
			}
		}
		for _, word := range c.unwanted {
			if strings.Contains(got, word) {
				t.Errorf("%s: %q stands in\n%s", name, word, got)
			}
		}
	}
}

func TestSendVerdicts(t *testing.T) {
	status := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprintf(w, "no, %s hunter2", secretPath)
		}
	}
	released := make(chan struct{})
	defer close(released)
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		verdict notify.Verdict
		wait    time.Duration
	}{
		"taken":         {status(200), notify.Accepted, 0},
		"rate limited":  {status(429, "Retry-After", "7"), notify.Deferred, 7 * time.Second},
		"rate nonsense": {status(429, "Retry-After", "-9"), notify.Deferred, 0},
		"server error":  {status(503), notify.Deferred, 0},
		"gateway timed": {status(504), notify.Lost, 0},
		"bad payload":   {status(400), notify.Refused, 0},
		"gone":          {status(410), notify.Refused, 0},
		"redirect":      {status(302, "Location", "http://127.0.0.1:1/"), notify.Refused, 0},
		"hangs": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}, notify.Lost, 0},
		"cut before an answer": {func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				conn.Close()
			}
		}, notify.Lost, 0},
		"cut inside the answer": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "99")
			fmt.Fprint(w, "o")
		}, notify.Accepted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, c.handler)
			if name == "hangs" {
				w.timeout = time.Second // the others are answered, however late
			}
			got := w.Send(t.Context(), outcomeMessage())
			if got.Verdict != c.verdict || got.Wait != c.wait {
				t.Errorf("got %+v, want verdict %d, wait %s", got, c.verdict, c.wait)
			}
			if strings.Contains(got.Detail, "s3cr3t") || strings.Contains(got.Detail, "hunter2") {
				t.Errorf("a secret is in the detail: %s", got.Detail)
			}
		})
	}
}

func TestUnreachableIsDeferredAndSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	w := webhook(t, "http://"+l.Addr().String(), time.Minute)
	got := w.Send(t.Context(), outcomeMessage())
	if got.Verdict != notify.Deferred || strings.Contains(got.Detail, "s3cr3t") {
		t.Errorf("%+v", got)
	}
	for _, shown := range []string{fmt.Sprint(w), fmt.Sprintf("%+v", w), fmt.Sprintf("%#v", w)} {
		if strings.Contains(shown, "s3cr3t") {
			t.Errorf("the address is shown: %s", shown)
		}
	}
}

func TestAddressIsChecked(t *testing.T) {
	for _, bad := range []string{"", "hooks.example", "http://hooks.example/s3cr3t", "ftp://127.0.0.1/s3cr3t", "http://[::1", "http://127.0.0.1.evil.example/s3cr3t"} {
		_, err := New(bad, Options{})
		if nightcrier.CodeOf(err) != nightcrier.Invalid || strings.Contains(fmt.Sprint(err), "s3cr3t") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{"https://hooks.example/x", "http://127.0.0.1:9/x", "http://[::1]:9/x", "http://localhost/x"} {
		if _, err := New(good, Options{}); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

// posted sends m and returns the JSON that arrived.
func posted(t *testing.T, m notify.Message) (string, payload) {
	t.Helper()
	var raw []byte
	w := serve(t, func(_ http.ResponseWriter, r *http.Request) { raw, _ = io.ReadAll(r.Body) })
	if got := w.Send(t.Context(), m); got.Verdict != notify.Accepted {
		t.Fatalf("%+v", got)
	}
	var p payload
	if err := json.Unmarshal(raw, &p); err != nil {
		t.Fatal(err)
	}
	checkLimits(t, p)
	if p.literal != asItIs || !bytes.Contains(raw, []byte(`"mrkdwn":false,"parse":"none","link_names":false,"unfurl_links":false,"unfurl_media":false`)) {
		t.Errorf("Slack may make more of the texts than they are:\n%.400s", raw)
	}
	return string(raw), p
}

func checkLimits(t *testing.T, p payload) {
	t.Helper()
	blocks := allBlocks(p)
	if p.Text == "" || len(blocks) == 0 || len(blocks) > maxBlocks {
		t.Errorf("fallback %q, %d blocks", p.Text, len(blocks))
	}
	for _, b := range blocks {
		limit := map[string]int{"header": maxHeader, "section": maxSection}[b.Type]
		if b.Text != nil && (utf8.RuneCountInString(b.Text.Text) > limit || b.Text.Text == "") {
			t.Errorf("%s of %d characters", b.Type, utf8.RuneCountInString(b.Text.Text))
		}
		for _, f := range b.Fields {
			if utf8.RuneCountInString(f.Text) > maxField {
				t.Errorf("field of %d characters", utf8.RuneCountInString(f.Text))
			}
		}
		if b.Type == "section" && b.Text == nil && len(b.Fields) == 0 || b.Type == "context" && len(b.Elements) == 0 {
			t.Errorf("an empty %s, which Slack refuses", b.Type)
		}
	}
}

// allBlocks are the blocks of a payload, in the order in which Slack shows them.
func allBlocks(p payload) []block {
	all := slices.Clone(p.Blocks)
	for _, a := range p.Attachments {
		all = append(all, a.Blocks...)
	}
	return all
}

// words returns all text of a payload, one text a line.
func words(p payload) string {
	var all []string
	for _, b := range allBlocks(p) {
		if b.Text != nil {
			all = append(all, b.Text.Text)
		}
		for _, f := range append(b.Fields, b.Elements...) {
			all = append(all, f.Text)
		}
	}
	return strings.Join(all, "\n")
}

func TestOutcomeTellsWhatOnCallNeeds(t *testing.T) {
	_, p := posted(t, outcomeMessage())
	text := words(p)
	for _, want := range []string{"prod-1: CrashLoop on shop/Pod/cart-0: report ready", "*Cluster*\nprod-1", "*Namespace*\nshop", "*Resource*\nPod/cart-0",
		"*Confidence*\nhigh", "*Status*\nreport ready", "*Duration*\n1m23s", "critical P1", "The container exceeds its memory limit.", "Deployment shop/cart",
		"1. raise the limit\n2. second\n3. third", "<http://127.0.0.1:8080/i/0196-a|Open the report>", "incident 0196-a", "75 % of 4 facts checked", "audit 3f9a3f9a3f9a"} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "resolved") {
		t.Errorf("a report is no end of the fault:\n%s", text)
	}
	if strings.Contains(text, "fourth") || p.Attachments[0].Color != colours[nightcrier.Critical] {
		t.Errorf("colour %s, or more than %d actions:\n%s", p.Attachments[0].Color, topActions, text)
	}
}

func TestFailureIsToldToo(t *testing.T) {
	inc := incident()
	inc.Status, inc.FailureReason, inc.FailureClass = nightcrier.AgentFailed, "the key hunter2 was refused", nightcrier.FailAuth
	_, p := posted(t, notify.OutcomeOf(inc, "r", nil, "/var/lib/nightcrier/incident-0196-a"))
	text := words(p)
	for _, want := range []string{"agent failed", "the key ‹secret› was refused (auth)", "/var/lib/nightcrier/incident-0196-a"} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
}

// A run is told with all that it takes to decide whether to look.
func TestRunsAreTold(t *testing.T) {
	at := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	run := notify.Run{Text: "Deployed <!channel> with hunter2", Run: nightcrier.Run{ID: "0196-r", Pipeline: "nightly", Subject: nightcrier.Subject{Kind: nightcrier.SubjectSchedule, ID: "0 7 * * * UTC", Title: "2026-05-01T07:00:00Z"},
		Status: nightcrier.Finished, Outcome: nightcrier.StateFailed, FailureReason: "the step deploy failed: hunter2 was refused", CostUSD: 1.25, TriggeredBy: "schedule",
		AdmittedAt: at, EndedAt: at.Add(83 * time.Second), Steps: []nightcrier.Step{
			{ID: "build", State: nightcrier.StateSuccess, StartedAt: at, EndedAt: at.Add(time.Minute), Usage: nightcrier.Usage{CostUSD: 1.25}},
			{ID: "deploy", State: nightcrier.StateFailed, FailureReason: "<@U1> hunter2 was refused", StartedAt: at, EndedAt: at.Add(23 * time.Second)},
			{ID: "check", State: nightcrier.StateCreated, Skipped: "the step deploy failed"},
		}}}
	_, p := posted(t, notify.RunOf(run, "slack"))
	text := words(p)
	for _, want := range []string{"🔴 nightly failed: schedule 2026-05-01T07:00:00Z", "Deployed &lt;!channel&gt; with ‹secret›", "*Pipeline*\nnightly", "*Outcome*\nfailed", "*Duration*\n1m23s",
		"*Cost*\n$1.25", "*Started by*\nschedule", "*Why*\nthe step deploy failed: ‹secret› was refused", "build: success, 1m0s, $1.25\n", "deploy: failed, 23s – &lt;@U1&gt; ‹secret› was refused\n", "check: skipped – the step deploy failed",
		"`nightcrier runs show 0196-r`"} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
	run.Run = nightcrier.Run{ID: "0196-r", Pipeline: "nightly", Status: nightcrier.Dropped, Reason: nightcrier.QueueExpired}
	if _, p := posted(t, notify.RunOf(run, "slack")); !strings.Contains(words(p), "nightly did not begin") || !strings.Contains(words(p), "*Why*\nqueue expired") {
		t.Error(words(p))
	}
}

// Who may decide is told what about, and how.
func TestPeopleAreTold(t *testing.T) {
	asked := nightcrier.Approval{ID: "0196-a", Pipeline: "release", Step: "deploy", Kind: nightcrier.ApproveCall, Prompt: "Apply <!channel>?", Server: "k8s", Tool: "kubectl_apply",
		Arguments: []byte(`{"manifest":"kind: Pod"}`), Digest: strings.Repeat("0123456789abcdef", 4), RequestedBy: "ann", Approvers: []string{"ann", "bob"}, Needed: 1}
	_, p := posted(t, notify.ApprovalOf(asked))
	for _, want := range []string{"release waits for a decision: Apply &lt;!channel&gt;?", "*Who may decide*\nbob", "*Tool*\nkubectl_apply", "*Until*\nfor ever", "kind: Pod",
		"`nightcrier approvals approve 0196-a --digest 0123456789ab`"} {
		if !strings.Contains(words(p), want) {
			t.Errorf("missing %q in\n%s", want, words(p))
		}
	}
}

// Of a call its key says what it was about, and nothing does where there is none.
func TestCallsAreTold(t *testing.T) {
	for key, want := range map[string]string{"health of prod": "✅ cluster-health succeeded: health of prod", "": "✅ cluster-health succeeded"} {
		run := notify.Run{Run: nightcrier.Run{ID: "0196-r", Pipeline: "cluster-health", Key: key, Subject: nightcrier.Subject{Kind: nightcrier.SubjectCall, ID: "0196-r", Title: "ann"},
			Status: nightcrier.Finished, Outcome: nightcrier.StateSuccess, TriggeredBy: "ann"}}
		_, p := posted(t, notify.RunOf(run, "slack"))
		if p.Text != want || !strings.Contains(words(p), "*Started by*\nann") || strings.Contains(words(p), "*About*") != (key != "") {
			t.Errorf("%q: %q, want %q; %s", key, p.Text, want, words(p))
		}
	}
}

func TestOtherKinds(t *testing.T) {
	inc := incident()
	for want, m := range map[string]notify.Message{
		"Severity rose from warning to critical":                                             notify.RiseOf(inc, nightcrier.Warning, ""),
		"is over since 2026-11-23 03:20 UTC, and was not seen again for 5m0s. So are 2 more": notify.OverOf(overAt(inc), 5*time.Minute, 2, ""),
		"is unusable":                           notify.BreakerOf(notify.Breaker{Executor: "claude-code", Class: nightcrier.FailQuota, Waiting: 4}, true),
		"works again":                           notify.BreakerOf(notify.Breaker{Executor: "claude-code"}, false),
		"The budget of all clusters is used up": notify.BudgetOf(notify.Budget{Day: "2026-11-23", Detail: "budget.per_day_usd is reached"}),
		"used up for 2026-11-23 (UTC)":          notify.BudgetOf(notify.Budget{Day: "2026-11-23", Cluster: "prod-1"}),
		"Nightcrier: weather":                   {Kind: "weather"},
	} {
		if _, p := posted(t, m); !strings.Contains(words(p), want) {
			t.Errorf("missing %q in\n%s", want, words(p))
		}
	}
}

func overAt(inc nightcrier.Incident) nightcrier.Incident {
	inc.Condition, inc.ClearedAt = nightcrier.ConditionCleared, time.Date(2026, 11, 23, 3, 20, 0, 0, time.UTC)
	return inc
}

func TestStormListsAndStaysWithinLimits(t *testing.T) {
	s := notify.Storm{ID: "s-1", Cluster: "prod-1", Investigated: map[string]bool{"id-3": true}}
	for i := range 700 {
		inc := incident()
		inc.ID, inc.Severity = fmt.Sprintf("id-%d", i), nightcrier.Warning
		inc.Resource.Name = fmt.Sprintf("pod-%d-%s", i, strings.Repeat("x", 230))
		if i == 3 {
			inc.Severity, inc.Resource.Name = nightcrier.Critical, "the-worst"
		}
		s.Incidents = append(s.Incidents, inc)
	}
	_, p := posted(t, notify.StormOf(s, ""))
	text := words(p)
	for _, want := range []string{"Storm in prod-1: 700 incidents", "shop/Pod/the-worst (investigated)", "and 640 more"} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q", want)
		}
	}
}

func TestHostileTextPingsNobody(t *testing.T) {
	attack := "<!channel> @here #general evil.example/x *bold* <@U123> <https://evil.example|Open the report> & \x1b[2J\u202Egnp.exe hunter2 "
	inc := incident()
	inc.FaultType, inc.Resource.Name, inc.Cluster, inc.FailureReason = attack, attack, attack, attack
	inc.Status = nightcrier.AgentFailed
	rep := reportOf()
	rep.RootCause.Summary = strings.Repeat(attack, 900)
	rep.Actions = []nightcrier.Action{{Action: strings.Repeat(attack, 900)}}
	for _, m := range []notify.Message{
		notify.OutcomeOf(inc, "r", rep, attack),
		notify.OutcomeOf(inc, "r", rep, "https://evil.example/|<!channel>"),
		notify.RiseOf(inc, nightcrier.Info, attack),
		notify.OverOf(overAt(inc), time.Minute, 1, attack),
		notify.BreakerOf(notify.Breaker{Executor: "x", Detail: strings.Repeat(attack, 900)}, true),
		notify.BudgetOf(notify.Budget{Cluster: attack, Detail: strings.Repeat(attack, 900)}),
		notify.ApprovalOf(nightcrier.Approval{ID: attack, Pipeline: attack, Step: attack, Tool: attack, Server: attack, Prompt: strings.Repeat(attack, 900), RequestedBy: attack, Approvers: []string{attack, "bob"},
			Arguments: []byte(`"` + strings.Repeat("<!channel> hunter2 ", 900) + `"`)}),
		notify.StormOf(notify.Storm{Cluster: attack, Incidents: []nightcrier.Incident{inc}}, attack),
	} {
		raw, p := posted(t, m)
		text := words(p) + p.Text
		for _, a := range p.Attachments {
			text += a.Fallback
		}
		if len(p.Blocks) != 1 || p.Blocks[0].Type != "header" || p.Blocks[0].Text.Type != "plain_text" {
			t.Errorf("%s: the channel shows %+v for the title", m.Kind, p.Blocks)
		}
		for _, bad := range []string{"<!", "<@", "<https://evil", "\x1b", "\u202E", "hunter2"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s lets %q through:\n%.300s", m.Kind, bad, text)
			}
		}
		if n, v := strings.Count(raw, `"type":"mrkdwn"`), strings.Count(raw, `"verbatim":true`); n != v {
			t.Errorf("%d texts, of which %d are verbatim", n, v)
		}
	}
}

func TestEscapeCutsAtSentences(t *testing.T) {
	for name, c := range map[string]struct {
		in    string
		limit int
		want  string
	}{
		"fits exactly":   {"abcd", 4, "abcd"},
		"sentence":       {"First one. Second one is long", 20, "First one. …"},
		"early sentence": {"A. then many words follow here", 20, "A. then many words …"},
		"no space":       {strings.Repeat("x", 30), 10, "xxxxxxxx …"},
		"entity whole":   {"aaaa<<<<<<<", 12, "aaaa&lt; …"},
		"counts escaped": {"<<<", 12, "&lt;&lt;&lt;"},
		"bad utf8":       {"a\xffb", 10, "a\uFFFDb"},
	} {
		got := escapeText(c.in, c.limit)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if utf8.RuneCountInString(got) > c.limit {
			t.Errorf("%s: longer than %d", name, c.limit)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("One. Two <!channel> & three", 12)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = 8 + abs(limit)%200
		got := escapeText(s, limit)
		if utf8.RuneCountInString(got) > limit || strings.ContainsAny(got, "<>") || !utf8.ValidString(got) {
			t.Errorf("escapeText(%q, %d) = %q", s, limit, got)
		}
		m := outcomeMessage()
		m.Incident.Cluster, m.Incident.FaultType, m.Incident.Resource.Name = s, s, s
		p := (&Webhook{mask: func(s string) string { return s }}).renderMessage(m)
		for _, shown := range []string{p.Text, p.Blocks[0].Text.Text, p.Attachments[0].Fallback} {
			if strings.ContainsAny(shown, "<>\n") || !utf8.ValidString(shown) {
				t.Errorf("%q, told of, is %q", s, shown)
			}
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}
