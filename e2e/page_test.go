package e2e

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/test/browsertest"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

// pictures is the variable that names a directory where pictures of all pages are left, for
// people to look at: a page can pass every test and be ugly.
const pictures = "NIGHTCRIER_PAGES"

// demoPage starts a demo and returns the link to its page.
func demoPage(t *testing.T, flags ...string) (link string) {
	t.Helper()
	cmd := exec.Command(binary(t), append([]string{"demo"}, flags...)...)
	cmd.Env = append(cmd.Environ(), "TMPDIR="+t.TempDir())
	demo, err := testproc.Start(cmd, syscall.SIGINT)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { demo.Stop(os.Interrupt) })
	is := regexp.MustCompile(`not logged in yet: (http://\S+/login\?code=\S+)`) // all has happened
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if m := is.FindStringSubmatch(demo.String()); m != nil {
			return m[1]
		}
		if time.Now().After(deadline) {
			t.Fatalf("the demo told no link:\n%s", demo)
		}
	}
}

// TestPageOfTheDemo goes where somebody goes who looks at the demo: from the list to an incident,
// and from a fact to the answer of the cluster that shows it. Every page on the way is one that
// all people can use, in each of the ways that they look at it.
func TestPageOfTheDemo(t *testing.T) {
	t.Parallel()
	link := demoPage(t)
	at, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + at.Host
	tab := browsertest.Open(t).Tab(browsertest.Desk)
	tab.Go(base + "/spend")
	if got := tab.URL(); !strings.Contains(got, "/login?to=%2Fspend") {
		t.Errorf("without a login one is at %s", got)
	}
	tab.Go(link)
	tab.Await(".rows .row")
	tab.Go(link)
	if got := tab.URL(); got != base+"/incidents" {
		t.Errorf("the link again, in the browser that it logged in, leads to %s", got)
	}
	if answer, err := http.Get(link); err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("the link logged in a second browser: %v, %v", answer, err)
	}

	tab.Press("j")
	tab.Press("j")
	tab.Press("Enter")
	tab.Await(".card")
	incident := tab.URL()
	tab.Go(base + "/incidents?text=frontend")
	tab.Click(".row-link")
	tab.Await(".card .first")
	cascade := tab.URL()
	var evidence string
	tab.Eval(`document.querySelector(".factlist a.evidence").href`, &evidence)
	tab.Go(evidence)
	tab.Await(".lines .hit")

	pages := map[string]string{
		"incidents": base + "/incidents", "nothing": base + "/incidents?text=nothing-is-called-so", "incident": incident, "cascade": cascade, "evidence": evidence,
		"runs": base + "/runs", "clusters": base + "/clusters", "suppressed": base + "/suppressed", "pipelines": base + "/pipelines", "skills": base + "/skills",
		"spend": base + "/spend", "doctor": base + "/doctor", "settings": base + "/settings", "missing": base + "/nowhere",
	}
	tab.Go(base + "/runs")
	tab.Eval(`document.querySelector(".row-link").href`, &evidence)
	pages["run"] = evidence
	for name, address := range pages {
		for view, v := range map[string]browsertest.View{"desk": browsertest.Desk, "desk-dark": {Width: 1280, Height: 900, Dark: true}, "phone": browsertest.Phone, "phone-dark": {Width: 390, Height: 844, Dark: true}} {
			tab.Look(v)
			tab.Go(address)
			tab.Await("main")
			if view != "phone-dark" { // what is dark, and what is narrow, the others have
				for _, found := range tab.Axe() {
					t.Errorf("%s, %s: %s", name, view, found)
				}
			}
			var wide int
			if tab.Eval(`document.documentElement.scrollWidth - innerWidth`, &wide); wide > 0 {
				t.Errorf("%s, %s: it is %d pixels wider than the screen", name, view, wide)
			}
			tab.Shoot(pictures, name+"-"+view+".png", true)
		}
	}
	tab.Look(browsertest.View{Width: 1000, Height: 640}) // docs/page.png
	tab.Go(cascade)
	tab.Await(".command button")
	tab.Shoot(pictures, "page.png", false)
	if said := tab.Complaints(); len(said) > 0 {
		t.Errorf("a page complained: %q", said)
	}
	readWithoutScript(t, tab, base, cascade)
}

// readWithoutScript reads and prints the pages where no script runs.
func readWithoutScript(t *testing.T, tab *browsertest.Tab, base, incident string) {
	tab.Look(browsertest.View{Width: 1280, Height: 900, NoScript: true})
	tab.Go(base + "/incidents?severity=critical")
	tab.Click(".row-link")
	tab.Await(".card .first")
	tab.Click(".factlist a.evidence")
	tab.Await(".lines .hit")
	tab.Go(incident)
	tab.Type("textarea", "Seen with the network team.")
	tab.Click(".note-form button")
	tab.Await("blockquote")
	if got := tab.Text("blockquote"); !strings.Contains(got, "Seen with the network team.") || !strings.Contains(got, "local") {
		t.Errorf("the note is shown as %q", got)
	}
	tab.Look(browsertest.View{Width: 800, Height: 1100, Print: true})
	tab.Go(incident)
	tab.Await(".card")
	tab.Shoot(pictures, "incident-print.png", true)
	var shown bool
	if tab.Eval(`document.querySelector(".bar").checkVisibility() || document.querySelector("form").checkVisibility()`, &shown); shown {
		t.Error("what is clicked on is printed")
	}
}
