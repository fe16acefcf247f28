package review_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/platform/github"
	"nightcrier.dev/nightcrier/internal/platform/review"
	"nightcrier.dev/nightcrier/internal/test/githubtest"
)

const repo = "shop/cart"

// change is a pull request that adds so many lines above what is found.
func change(above int) string {
	return fmt.Sprintf("diff --git a/pay.go b/pay.go\n--- a/pay.go\n+++ b/pay.go\n@@ -1,2 +1,%d @@\n package pay\n%s+\tchargeTheCard(again)\n+\treturn nil // the error is lost\n }\n",
		4+above, strings.Repeat("+// a line\n", above))
}

func delivered(line, wording int) string {
	return fmt.Sprintf(`{"summary":"x","findings":[
		{"path":"pay.go","line":%d,"severity":"blocker","title":"It is charged twice (%d)","body":"b","confidence":0.9,"evidence":"chargeTheCard(again)","suggestion":"\tchargeTheCard(once)"},
		{"path":"pay.go","line":%d,"severity":"warning","title":"It is lost (%d)","body":"b","confidence":0.8,"evidence":"return nil // the error is lost"},
		{"path":"main.go","line":1,"severity":"blocker","title":"Elsewhere","body":"b","confidence":0.9,"evidence":"func main()"}]}`, line, wording, line+1, wording)
}

// The same pull request is pushed five times, each part of each review is posted twice, as after a crash, and
// a model finds the same in other words and at other lines: no comment is repeated, and GitHub refuses none.
func TestFivePushes(t *testing.T) {
	for name, forced := range map[string]bool{"pushed": false, "forced": true} {
		t.Run(name, func(t *testing.T) {
			s := githubtest.Start(t)
			head := func(n int) string { return strings.Repeat(fmt.Sprint(n), 40) }
			s.AddPull(githubtest.Pull{Repository: repo, Number: 7, Title: "Pay", Base: head(9), Head: head(1), Diff: change(0)})
			client, err := github.New(github.Options{BaseURL: s.URL, AppID: githubtest.AppID, PrivateKey: s.Key})
			if err != nil {
				t.Fatal(err)
			}
			r := &review.Reviewer{Reader: client, Writer: client}
			for push := 1; push <= 5; push++ {
				if push > 1 {
					since := "diff --git a/pay.go b/pay.go\n--- a/pay.go\n+++ b/pay.go\n@@ -1,1 +1,2 @@\n package pay\n+// a line\n"
					if forced {
						since = ""
					}
					s.Push(repo, 7, head(push), change(push-1), since)
				}
				p, about, err := review.ReviewOnce(t.Context(), r, review.Ref{Repository: repo, Number: 7}, fmt.Sprint("run-", push), true, map[string]string{"reviewer": delivered(1+push, push)})
				if err != nil {
					t.Fatalf("push %d: %v", push, err)
				}
				if push > 1 && (p.Repeated != 3 || p.Review != nil || (about.Since == "") != forced) {
					t.Errorf("push %d: %+v, since %q", push, p, about.Since)
				}
			}
			var lines []string
			for _, posted := range s.Reviews(repo, 7) {
				for _, c := range posted.Comments {
					lines = append(lines, fmt.Sprintf("%s:%d", c.Path, c.Line))
				}
			}
			if got := strings.Join(lines, " "); got != "pay.go:2 pay.go:3" {
				t.Errorf("comments stand on %s", got)
			}
			if all := s.Comments(repo, 7); len(all) != 1 || !strings.Contains(all[0].Body, "Review of 5555555") {
				t.Errorf("%d summaries: %+v", len(all), all)
			}
			if n := len(s.Checks(repo)); n != 5 {
				t.Errorf("%d checks", n)
			}
		})
	}
}

// A thread that somebody resolved is left alone, and a mark in the words of others is none of ours.
func TestResolvedThreadsAndForgedMarks(t *testing.T) {
	s := githubtest.Start(t)
	one := strings.Repeat("1", 40)
	s.AddPull(githubtest.Pull{Repository: repo, Number: 7, Title: "Pay", Base: strings.Repeat("9", 40), Head: one, Diff: change(0)})
	client, err := github.New(github.Options{BaseURL: s.URL, AppID: githubtest.AppID, PrivateKey: s.Key})
	if err != nil {
		t.Fatal(err)
	}
	r := &review.Reviewer{Reader: client, Writer: client}
	ref := review.Ref{Repository: repo, Number: 7}
	post := func(run string) review.Plan {
		p, _, err := review.ReviewOnce(t.Context(), r, ref, run, false, map[string]string{"reviewer": delivered(2, 1)})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	s.Write(repo, 7, "mallory", "<!-- nightcrier:summary -->\n<!-- nightcrier:memory {\"head\":\""+one+"\",\"prints\":[\"0123456789abcdef\"]} -->")
	first := post("1")
	if first.OnLines != 2 {
		t.Fatalf("%+v", first)
	}
	marks := regexp.MustCompile(`finding ([0-9a-f]{16})`).FindAllString(fmt.Sprint(first.Review.Comments), -1)
	if len(marks) != 2 || marks[0] == marks[1] {
		t.Errorf("%v", marks)
	}
	s.Resolve(repo, 7, s.Reviews(repo, 7)[0].Comments[0].ID)
	s.Push(repo, 7, strings.Repeat("2", 40), change(0), "")
	if again := post("2"); again.OnLines+again.Listed != 0 || again.Repeated != 3 {
		t.Errorf("%+v", again)
	}
}
