// Package browsertest lets tests look at pages as people do: in Chromium, by its debugging
// protocol, and with axe-core, which knows what keeps people out.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"nightcrier.dev/nightcrier/internal/test/assetcache"
)

const (
	axePackage = "axe-core"
	axeVersion = "4.14.1"
	axeEntry   = "axe-core-" + axeVersion
	// patience bounds what a test waits for, on a machine that does much else.
	patience = 20 * time.Second
)

// InstallAxe makes sure that axe-core is in the cache, and tells progress on log.
func InstallAxe(ctx context.Context, log io.Writer) error {
	_, err := assetcache.Ensure(ctx, axeEntry, func(ctx context.Context, dir string) error {
		return assetcache.NPM(ctx, dir, log, axePackage+"@"+axeVersion)
	})
	return err
}

// Browser is a Chromium of one test.
type Browser struct {
	ctx context.Context
	tb  testing.TB
}

// Open starts Chromium. Where there is none, the test is skipped aloud.
func Open(tb testing.TB) *Browser {
	tb.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		tb.Skip("SKIPPED ALOUD: there is no Chromium: install the package chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.UserDataDir(tb.TempDir()), chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(patience))
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	tb.Cleanup(end)
	ctx, close := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {}))
	tb.Cleanup(close)
	if err := chromedp.Run(ctx); err != nil {
		tb.Fatalf("start Chromium: %v", err)
	}
	return &Browser{ctx, tb}
}

// View is how somebody looks at a page.
type View struct {
	Width, Height         int
	Dark, NoScript, Print bool
}

// Usual views.
var (
	Desk  = View{Width: 1280, Height: 900}
	Phone = View{Width: 390, Height: 844}
)

// Tab is a page that is looked at.
type Tab struct {
	ctx context.Context
	tb  testing.TB
	// Said is what the page complained of: errors of scripts, and what its policy forbade.
	said chan string
}

// Tab opens a tab.
func (b *Browser) Tab(v View) *Tab {
	b.tb.Helper()
	ctx, close := chromedp.NewContext(b.ctx)
	b.tb.Cleanup(close)
	t := &Tab{ctx: ctx, tb: b.tb, said: make(chan string, 100)}
	chromedp.ListenTarget(ctx, t.note)
	if err := chromedp.Run(ctx, network.Enable()); err != nil { // it makes the tab, which ends with what it is made in
		b.tb.Fatalf("open a tab: %v", err)
	}
	t.Look(v)
	return t
}

func (t *Tab) note(event any) {
	said := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		said = e.ExceptionDetails.Error()
	case *page.EventJavascriptDialogOpening:
		go func() { _ = chromedp.Run(t.ctx, page.HandleJavaScriptDialog(true)) }()
		if e.Type != page.DialogTypeConfirm {
			said = "a dialog: " + e.Message
		}
	}
	if said != "" {
		select {
		case t.said <- said:
		default:
		}
	}
}

// Complaints are what the page complained of until now.
func (t *Tab) Complaints() (all []string) {
	for {
		select {
		case s := <-t.said:
			all = append(all, s)
		default:
			return all
		}
	}
}

// do runs actions, in time.
func (t *Tab) do(actions ...chromedp.Action) {
	t.tb.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.tb.Fatalf("browser: %v\n%s", err, t.describe())
	}
}

// describe says where the tab is and what it shows, for error messages.
func (t *Tab) describe() string {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	var at, text string
	err := chromedp.Run(ctx, chromedp.Location(&at), chromedp.Evaluate("document.body.innerText", &text))
	return fmt.Sprintf("at %s (%v):\n%.3000s", at, err, text)
}

// Look changes how the page is looked at.
func (t *Tab) Look(v View) {
	t.tb.Helper()
	theme, media := "light", "screen"
	if v.Dark {
		theme = "dark"
	}
	if v.Print {
		media = "print"
	}
	t.do(emulation.SetDeviceMetricsOverride(int64(v.Width), int64(v.Height), 1, v.Width < 500), emulation.SetScriptExecutionDisabled(v.NoScript),
		emulation.SetEmulatedMedia().WithMedia(media).WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// Go opens an address.
func (t *Tab) Go(address string) {
	t.tb.Helper()
	t.do(chromedp.Navigate(address))
}

// Await waits until a selector is seen.
func (t *Tab) Await(selector string) {
	t.tb.Helper()
	t.do(chromedp.WaitVisible(selector, chromedp.ByQuery))
}

// AwaitJS waits until an expression is true, also on the page that the tab goes to meanwhile.
func (t *Tab) AwaitJS(expression string) {
	t.tb.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	for {
		var ok bool
		err := chromedp.Run(ctx, chromedp.Evaluate("Boolean("+expression+")", &ok))
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			t.tb.Fatalf("waiting for %s: %v\n%s", expression, err, t.describe())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Click clicks what a selector finds first.
func (t *Tab) Click(selector string) {
	t.tb.Helper()
	t.do(chromedp.Click(selector, chromedp.ByQuery))
}

// Type writes into a field.
func (t *Tab) Type(selector, text string) {
	t.tb.Helper()
	t.do(chromedp.SendKeys(selector, text, chromedp.ByQuery))
}

// Press presses a key, such as "j" or "Enter", wherever the focus is.
func (t *Tab) Press(key string) {
	t.tb.Helper()
	if key == "Enter" {
		key = kb.Enter
	} else if key == "Tab" {
		key = kb.Tab
	}
	t.do(chromedp.KeyEvent(key))
}

// Text is what a selector shows.
func (t *Tab) Text(selector string) (text string) {
	t.tb.Helper()
	t.do(chromedp.Text(selector, &text, chromedp.ByQuery))
	return text
}

// URL is where the tab is.
func (t *Tab) URL() (at string) {
	t.tb.Helper()
	t.do(chromedp.Location(&at))
	return at
}

// Eval evaluates an expression.
func (t *Tab) Eval(expression string, to any) {
	t.tb.Helper()
	t.do(chromedp.Evaluate(expression, to, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// Shoot keeps a picture in the directory that the variable names, for people to look at: of the
// whole page, or of what the screen shows of it.
func (t *Tab) Shoot(variable, name string, whole bool) {
	t.tb.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		return
	}
	var png []byte
	if whole {
		t.do(chromedp.FullScreenshot(&png, 100))
	} else {
		t.do(chromedp.CaptureScreenshot(&png))
	}
	if err := os.WriteFile(filepath.Join(dir, name), png, 0o600); err != nil {
		t.tb.Error(err)
	}
}

// Axe names what axe-core finds on the page, by its rules for everybody.
func (t *Tab) Axe() (found []string) {
	t.tb.Helper()
	dir, err := assetcache.Lookup(axeEntry)
	if errors.Is(err, fs.ErrNotExist) {
		t.tb.Skip("SKIPPED ALOUD: axe-core is not in the cache: run `go run ./tools/assets browser`")
	}
	if err != nil {
		t.tb.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(dir, "node_modules", axePackage, "axe.min.js"))
	if err != nil {
		t.tb.Fatal(err)
	}
	var result struct {
		Violations []struct {
			ID, Help string
			Nodes    []struct{ HTML, FailureSummary string }
		}
	}
	t.do(chromedp.Evaluate(string(script), nil))
	t.Eval(`axe.run(document, {resultTypes: ["violations"]}).then(r => ({violations: r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => ({html: n.html, failureSummary: n.failureSummary}))}))}))`, &result)
	for _, v := range result.Violations {
		for _, n := range v.Nodes[:min(len(v.Nodes), 3)] {
			found = append(found, fmt.Sprintf("%s: %s: %.200s (%s)", v.ID, v.Help, n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", " ")))
		}
	}
	return found
}
