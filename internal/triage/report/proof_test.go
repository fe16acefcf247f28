package report

import (
	"bytes"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/test/testproc"
)

const activeContent = "<script>alert(1)</script> <img src=x onerror=alert(1)> <svg/onload=alert(1)> <iframe src=//evil> <style>*{display:none}</style> <base href=//evil>\n" +
	"[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](data:text/html,<script>alert(1)</script>) [d](vbscript:x) [e](//evil/x) [f](/api/v1/incidents) [g](\x01javascript:alert(1)) [h](java\nscript:alert(1))\n" +
	"![i](http://evil/pixel.png) ![j](javascript:alert(1)) <javascript:alert(1)> <http://ok.example/x> <data:text/html,x>\n" +
	"[r]: javascript:alert(1)\n\n[r] [k](http://ok.example/\"onmouseover=\"alert(1))\n\n" +
	"{{.Report}} {{template \"x\"}} <%= 1 %> ${7*7} \u202etxt.exe\u202c\u200b\x1b[2J &lt;script&gt;alert(1)&lt;/script&gt; &#60;script&#62;\n\n" +
	"<details open ontoggle=alert(1)><summary>x</summary>\n\n<details><summary><script>alert(1)</script></summary>\n\n</main></body></html><script>alert(1)</script>\n\n" +
	"<!--><script>alert(1)</script>\n\n<![CDATA[<script>alert(1)</script>]]>\n\n<?php alert(1) ?>\n\n```\"><script>alert(1)</script>\n</code></pre><script>alert(1)</script>\n```\n\n| a |\n|---|\n| <script>alert(1)</script> |\n"

// allowed are the elements that a page may hold, with their attributes.
var allowed = map[string]string{
	"html": "lang", "head": "", "meta": "charset http-equiv content name", "title": "", "style": "", "body": "", "header": "class", "p": "class", "b": "", "span": "class id",
	"h1": "", "small": "", "h2": "id", "h3": "", "h4": "", "h5": "", "h6": "", "dl": "class", "div": "class", "dt": "", "dd": "", "nav": "aria-label", "a": "href rel class", "main": "",
	"section": "class aria-labelledby", "footer": "", "ul": "", "ol": "start", "li": "", "input": "checked disabled type", "em": "", "strong": "", "q": "", "time": "datetime", "code": "class", "pre": "class tabindex",
	"table": "", "thead": "", "tbody": "", "tr": "", "th": "style align scope", "td": "style align data-label", "blockquote": "", "details": "class", "summary": "", "hr": "", "br": "",
}

// classes are those of the page's own style.
var classes = []string{"skip", "chips", "chip", "alarm", "warn", "calm", "note", "cause", "step", "first", "copy", "pairs", "legend", "id"}

// active returns what a browser would do with a page that it should not.
func active(t *testing.T, page []byte) (found []string) {
	t.Helper()
	for n := range parsed(t, page).Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		attributes, ok := allowed[n.Data]
		if !ok {
			found = append(found, "<"+n.Data+">")
		}
		for _, a := range n.Attr {
			if !slices.Contains(strings.Fields(attributes), a.Key) {
				found = append(found, n.Data+" "+a.Key+"="+a.Val)
			}
			if a.Key == "href" && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "http://ok.example/") {
				found = append(found, a.Val)
			}
			if a.Key == "class" && n.Data != "code" && slices.ContainsFunc(strings.Fields(a.Val), func(c string) bool { return !slices.Contains(classes, c) }) {
				found = append(found, "class "+a.Val)
			}
		}
	}
	return found
}

func parsed(t *testing.T, page []byte) *html.Node {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// say makes every text below v say s, lists of one where there are none.
func say(v reflect.Value, s string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		say(v.Elem(), s)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			say(v.Index(i), s)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(s).Convert(v.Type().Key()), reflect.ValueOf(s))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				say(v.Field(i), s)
			}
		}
	}
}

// hostile is a report, and an incident, whose every text is s.
func hostile(s string) (*nightcrier.Report, *nightcrier.Incident) {
	var r nightcrier.Report
	var inc nightcrier.Incident
	say(reflect.ValueOf(&r), s)
	say(reflect.ValueOf(&inc), s)
	return &r, &inc
}

func TestAPageIsNotActive(t *testing.T) {
	r := ours(sample())
	r.Target.Name, r.Cluster, r.Executor, r.RootCause.Summary, r.Facts[0].Text = activeContent, activeContent, activeContent, activeContent, activeContent
	r.Hypotheses[0].Falsification.Shown, r.Runbooks[0].Title, r.Runbooks[0].Text = activeContent, activeContent, activeContent
	d := detail()
	d.Excerpts = append(d.Excerpts, Excerpt{Title: activeContent, Text: activeContent})
	all, inc := hostile(activeContent)
	failed := *inc
	failed.Status = nightcrier.AgentFailed
	for name, page := range map[string][]byte{
		"our own": HTML(&r, d.Incident, Final(&r, d)), "an agent's": HTML(&r, nil, document(2, activeContent)), "nothing but": HTML(&r, nil, []byte(activeContent)),
		"every text": HTML(all, inc, Final(all, Detail{Incident: inc, Commands: []string{activeContent}})), "a failed run": HTML(all, &failed, nil),
	} {
		for _, found := range active(t, page) {
			t.Errorf("%s: the page holds %s", name, found)
		}
		if bytes.ContainsAny(page, "\u202e\u200b\x1b") {
			t.Errorf("%s: the page holds characters that turn or hide text", name)
		}
		if !bytes.Contains(page, []byte("alert(1)")) {
			t.Errorf("%s: the attack was not shown as text", name)
		}
	}
}

// A renderer that is quadratic, or recurses as deep as its input says, would end
// the tests here.
func TestHugePagesAreBounded(t *testing.T) {
	if testproc.Raced() {
		testproc.Rerun(t) // one goroutine has nothing to race with
		return
	}
	all := hostileReports(1 << 18)
	for _, unit := range []string{"> ", ">", "- ", "1. ", "[", "![", "*a ", "_", "`", "<", "](", "&", "\\", "| ", "    ", "<a ", "[x]: y\n", "* * ", "  - x\n"} {
		all["repeated "+unit] = strings.Repeat(unit, (1<<17)/len(unit))
	}
	nest := ""
	for i := range 3000 {
		nest += strings.Repeat(" ", 2*i) + "- x\n"
	}
	all["a deep list"] = nest
	all["emphasis over many lines"] = strings.Repeat(strings.Repeat("*a_", 1300)+"\n", 250)
	all["a wide table of empty rows"] = strings.Repeat("|a", 2000) + "|\n" + strings.Repeat("|-", 2000) + "|\n" + strings.Repeat("a\n", 3000)
	all["a wide table in a quote"] = ">" + strings.Repeat("|a", 2000) + "|\n>" + strings.Repeat("| :-: ", 2000) + "|\n" + strings.Repeat(">a\n", 3000)
	for name, md := range all {
		start := time.Now()
		page := HTML(&nightcrier.Report{}, nil, []byte(md))
		if len(page) > 16<<20 {
			t.Errorf("%q: a page of %d bytes", name, len(page))
		}
		if os.Getenv("NIGHTCRIER_PAGES") != "" && time.Since(start) > 200*time.Millisecond {
			t.Logf("%q: %s, %d bytes", name, time.Since(start), len(page))
		}
	}
}
