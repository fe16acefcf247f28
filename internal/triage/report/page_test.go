package report

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"nightcrier.dev/nightcrier"
)

// pages are the kinds of reports there are, by name.
func pages() map[string][]byte {
	made := map[string][]byte{}
	add := func(name string, r nightcrier.Report, inc nightcrier.Incident) {
		d := detail()
		d.Incident = &inc
		made[name] = HTML(&r, &inc, Final(&r, d))
	}
	inc := *detail().Incident
	inc.Condition, inc.Status = nightcrier.ConditionActive, nightcrier.Resolved
	r := ours(sample())
	r.CreatedAt = day.Add(time.Minute)
	r.RootCause.Object.Name = "cart-db"
	r.Actions[0].Action = "Raise the limit: `kubectl set resources deployment cart -n shop --limits=memory=256Mi`"
	r.Hypotheses[0].Statement = r.RootCause.Summary
	r.Facts[0].Check, r.Facts[1].Check = nightcrier.Verified, nightcrier.Seen
	add("fault", r, inc)

	healthy := nightcrier.Report{Target: r.Target, Verdict: nightcrier.VerdictHealthy, Severity: "P4", CreatedAt: r.CreatedAt, Source: "builtin", Executor: "builtin"}
	add("healthy", healthy, inc)

	second := inc
	second.CausedBy = "0191aaaa-7b3a-7c11-9a9b-0123456789ab"
	add("second", r, second)

	undetermined := r
	undetermined.Verdict, undetermined.RootCause, undetermined.Runbooks, undetermined.Recalled = nightcrier.VerdictUndetermined, nil, nil, nil
	undetermined.NotChecked = []nightcrier.NotChecked{{What: nightcrier.TheCluster, Why: "no kubeconfig is configured"}, {What: "logs of cart", Why: "denied"}}
	add("undetermined", undetermined, inc)

	failed := inc
	failed.Status, failed.FailureClass, failed.FailureReason = nightcrier.AgentFailed, nightcrier.FailAuth, "the model's API refuses the key"
	facts := undetermined
	facts.NotChecked, facts.Executor = []nightcrier.NotChecked{{What: "the agent's view", Why: "it ended before it reported"}}, "builtin"
	add("failed", facts, failed)

	long := strings.Repeat("Wörterohneeinende-", 400)
	wordy := ours(sample())
	wordy.Target.Name, wordy.RootCause.Object.Name, wordy.RootCause.Summary, wordy.Actions[0].Action, wordy.Cluster = long, long, long, long+"`kubectl "+long+"`", long
	wordy.Facts[0].Source, wordy.Facts[1].Quote, wordy.Changes[0].Who, wordy.Hypotheses[1].Statement = long, long, long, long
	for range 60 {
		wordy.Facts = append(wordy.Facts, wordy.Facts[0])
	}
	add("wordy", wordy, inc)
	made["not ours"] = HTML(&nightcrier.Report{}, nil, []byte("# What I found\n\n## Cause\n\nthe disk\n"))
	return made
}

// With NIGHTCRIER_PAGES=DIR the pages are left there, to look at.
func TestPagesCanBeUsedByEverybody(t *testing.T) {
	for name, page := range pages() {
		if dir := os.Getenv("NIGHTCRIER_PAGES"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".html"), page, 0o600); err != nil {
				t.Error(err)
			}
		}
		count, level, ids, links := map[string]int{}, 0, map[string]int{}, []string{}
		for n := range parsed(t, page).Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			count[n.Data]++
			if len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' {
				if next := int(n.Data[1] - '0'); next > level+1 {
					t.Errorf("%s: a heading of level %d below one of level %d", name, next, level)
				} else {
					level = next
				}
			}
			for _, a := range n.Attr {
				if target, inside := strings.CutPrefix(a.Val, "#"); a.Key == "href" && inside || a.Key == "aria-labelledby" {
					links = append(links, target)
				}
				if a.Key == "id" {
					ids[a.Val]++
				}
			}
		}
		for _, one := range []string{"h1", "main", "header", "nav", "footer", "title"} {
			if count[one] != 1 {
				t.Errorf("%s: %d times <%s>", name, count[one], one)
			}
		}
		for _, to := range links {
			if ids[to] == 0 {
				t.Errorf("%s: a link to #%s, which is not there", name, to)
			}
		}
		if count["th"] > 0 && !strings.Contains(string(page), `<th scope="col">`) {
			t.Errorf("%s: a table without heads", name)
		}
	}
}

func TestAPageTellsTheReport(t *testing.T) {
	made := pages()
	for name, c := range map[string]struct{ want, unwanted []string }{
		"fault": {[]string{
			"Content-Security-Policy", "style-src 'sha256-", "<title>Deployment shop/cart-db – Active incident P2</title>", "<dt>Status</dt><dd>Active incident</dd>", "<dt>Still broken?</dt><dd>Yes</dd>",
			"<dt>Confidence</dt><dd>High</dd>", "<dt>Blast radius</dt><dd>Single Pod</dd>", "<small>To mend on cluster prod-1: </small>Deployment shop/cart-db", "last reported at 03:04 UTC on 2 January 2026",
			`<pre class="copy" tabindex="0"><code>kubectl set resources deployment cart -n shop --limits=memory=256Mi</code></pre>`, "<dt>Expect</dt><dd>no restarts | stable</dd>", "<dt>Reported</dt><dd>Deployment shop/cart</dd>", `<div class="step">Raise the limit:</div>`,
			"2 of 3 facts stand in recorded evidence", `<span class="chip calm">verified</span>`, `<span class="chip warn">unseen</span>`, "a rule of Nightcrier tested it", "<td>metrics</td>", `<ol start="2">`,
			"2 minutes before the first restart", "report written (1 min after the first symptom)", `<time datetime="2026-01-02T03:04:05Z">2026-01-02 03:04:05 UTC</time>`, "<h3>Excerpts</h3>\n<details><summary>log <of> app</summary>",
			"raised by hand; the chart still says 64Mi", "<summary>Cart out of memory – cart-oom.md</summary>", "✓ holds", "get pods -n shop"},
			[]string{"<em>no agent", "Inputs Consulted", "Executive Triage Card", "was looked at:", "Caused by", "investigation failed", "it was not recorded which"}},
		"healthy":      {[]string{"<dt>Still broken?</dt><dd>No</dd>", "it was well when it was looked at, at 03:05 UTC", "– Healthy P4</title>"}, []string{`id="facts"`, `id="why"`, `id="changes"`, `id="scope"`, "Do first", "Wake somebody", "<em>none", "To mend"}},
		"undetermined": {[]string{"<b>No cluster was looked at:</b> no kubeconfig is configured", "undetermined; the first to test is: cart needs more than its 64Mi", "Next step", "2 things in all"}, []string{"To mend", "Do first"}},
		"second":       {[]string{"<b>Caused by incident <code>0191aaaa-7b3a-7c11-9a9b-0123456789ab</code>:</b>"}, nil},
		"failed":       {[]string{"<b>The agent's investigation failed.</b>", "the model's API refuses the key (auth)", "found by built-in rules"}, nil},
		"not ours":     {[]string{"As it was written", "<h2>What I found</h2>", "<h3>Cause</h3>"}, []string{"How it was found"}},
	} {
		page := html.UnescapeString(string(made[name]))
		for _, want := range c.want {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page does not hold %q", name, want)
			}
		}
		for _, unwanted := range c.unwanted {
			if strings.Contains(page, unwanted) {
				t.Errorf("%s: the page holds %q", name, unwanted)
			}
		}
	}
	if n := strings.Count(string(made["fault"]), "cart needs more than its 64Mi"); n != 2 { // and once of the earlier incident
		t.Errorf("the cause is said %d times", n)
	}
}

func TestStanding(t *testing.T) {
	fault, well := nightcrier.Report{Verdict: nightcrier.VerdictFault, CreatedAt: day}, nightcrier.Report{Verdict: nightcrier.VerdictRecovered, CreatedAt: day}
	asked := nightcrier.Incident{Condition: nightcrier.ConditionActive, FaultType: nightcrier.Asked}
	for name, c := range map[string]struct {
		report    nightcrier.Report
		incident  nightcrier.Incident
		want, why string
	}{
		"over":          {fault, nightcrier.Incident{Condition: nightcrier.ConditionCleared, ClearedAt: day.Add(time.Hour)}, "No, it is over", "04:04 UTC"},
		"found well":    {well, nightcrier.Incident{Condition: nightcrier.ConditionActive}, "No", "it was well"},
		"active":        {fault, nightcrier.Incident{Condition: nightcrier.ConditionActive, Timestamp: day, LastEventAt: day.Add(time.Minute)}, "Yes", "03:05 UTC"},
		"asked":         {fault, asked, "Yes, when looked at", "look again"},
		"nobody tells":  {fault, nightcrier.Incident{Condition: nightcrier.ConditionUnknown}, "Yes, when looked at", "look again"},
		"nothing known": {nightcrier.Report{Verdict: nightcrier.VerdictUndetermined}, nightcrier.Incident{}, "Not known", "look again"},
	} {
		if got := standingOf(&c.report, &c.incident); got.Word != c.want || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s: %+v, want %q", name, got, c.want)
		}
	}
}

func TestApart(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"the first symptom": 0, "3 s after the first symptom": 3*time.Second + 400*time.Millisecond, "2 min 5 s before the first symptom": -125 * time.Second,
		"1 h after the first symptom": time.Hour, "3 d 2 h before the first symptom": -74*time.Hour - 50*time.Minute,
	} {
		if got := distanceInWords(day.Add(d), day); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
	if got := distanceInWords(day, time.Time{}) + distanceInWords(time.Time{}, day); got != "" {
		t.Errorf("of no time: %q", got)
	}
}

func TestProse(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a `b` c": "a <code>b</code> c", "a `b": "a `b", "`<b>`": "<code>&lt;b&gt;</code>", "``": "<code></code>", "a\u202eb": "ab", "a `b` `c": "a <code>b</code> `c",
	} {
		if got := string(proseHTML(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Every text has a contrast of at least 4.5 to 1, by day and by night.
func TestContrast(t *testing.T) {
	themes := regexp.MustCompile(`:root\{([^}]*)\}`).FindAllStringSubmatch(pageCSS, -1)
	if len(themes) != 3 {
		t.Fatalf("%d themes", len(themes))
	}
	for _, theme := range themes {
		colours := map[string]float64{}
		for _, m := range regexp.MustCompile(`--(\w+):#(\w{3,6})`).FindAllStringSubmatch(theme[1], -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for _, text := range []string{"fg", "soft", "link", "alarm", "warn", "calm"} {
			for _, ground := range []string{"bg", "box"} {
				light := []float64{colours[text], colours[ground]}
				slices.Sort(light)
				if c := (light[1] + .05) / (light[0] + .05); c < 4.5 {
					t.Errorf("%s on %s: %.2f in %s", text, ground, c, theme[1])
				}
			}
		}
	}
}

// luminance is that of a colour in hexadecimal, as WCAG defines it.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = strings.Repeat(hex[:1], 2) + strings.Repeat(hex[1:2], 2) + strings.Repeat(hex[2:], 2)
	}
	sum := 0.0
	for i, weight := range []float64{.2126, .7152, .0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c > .03928 {
			c = math.Pow((c+.055)/1.055, 2.4)
		} else {
			c /= 12.92
		}
		sum += weight * c
	}
	return sum
}
