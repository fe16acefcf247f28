package readonly

import (
	"slices"
	"strings"
	"testing"
)

const (
	usual = "Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"
	every = "Bash(kubectl:get*,kubectl:describe*,kubectl:logs*,kubectl:events*,kubectl:top*,kubectl:explain*,kubectl:api-resources*,kubectl:api-versions*,kubectl:version*)"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		asked []string
		kept  []string
		notes int
	}{
		{nil, nil, 0},
		{[]string{"Read,Grep,Glob," + usual}, []string{"Read", "Grep", "Glob", usual}, 0},
		{[]string{"Read", "Grep", "Bash(kubectl logs:*)", "Bash(kubectl get *)"}, []string{"Read", "Grep", "Bash(kubectl:get*,kubectl:logs*)"}, 0},
		{[]string{"Read,Write,Grep,Glob,Bash,Skill"}, []string{"Read", "Write", "Grep", "Glob", every}, 3},
		{[]string{"Bash(kubectl top)", "Bash(kubectl:events *)"}, []string{"Bash(kubectl:events*,kubectl:top*)"}, 0},
		{[]string{"Bash(kubectl:get*,kubectl:delete*)"}, []string{"Bash(kubectl:get*)"}, 1},
		{[]string{"Bash(kubectl:exec*)"}, nil, 1},
		{[]string{"Bash(kubectl:*)"}, nil, 1},
		{[]string{"Bash(kubectl *)"}, nil, 1},
		{[]string{"Bash(kubectl)"}, nil, 1},
		{[]string{"Bash(kubectl-evil get)"}, nil, 1},
		{[]string{"Bash(*)"}, nil, 1},
		{[]string{"Bash()"}, nil, 1},
		{[]string{"Bash(rm:*)"}, nil, 1},
		{[]string{"Bash(kubectl get --raw:*)"}, nil, 1},
		{[]string{"Bash(kubectl get; rm -rf /)"}, nil, 1},
		{[]string{"Bash(kubectl get * && sh)"}, nil, 1},
		{[]string{"Bash(kubectl:getsecrets*)", "Bash(kubectl:ge*)"}, nil, 2},
		{[]string{"Edit,WebFetch,mcp__k8s__pods_delete,Task"}, nil, 4},
		{[]string{"Read(//etc/shadow)"}, []string{"Read"}, 1},
		{[]string{"Read,Read,", " , "}, []string{"Read"}, 0},
		{[]string{"read"}, nil, 1},
		{[]string{"Bash(kubectl get", ")))", "((("}, []string{"Bash(kubectl:get*)"}, 2},
		{[]string{strings.Repeat("x", 1000)}, nil, 1},
	} {
		t.Run(strings.Join(c.asked, " "), func(t *testing.T) {
			p, notes := Parse(c.asked)
			if got := p.Words(); !slices.Equal(got, c.kept) {
				t.Errorf("kept %q, want %q", got, c.kept)
			}
			if len(notes) != c.notes || len(strings.Join(notes, "")) > 1000 {
				t.Errorf("notes %q, want %d", notes, c.notes)
			}
			again, more := Parse(p.Words())
			if !slices.Equal(again.Words(), p.Words()) || len(more) > 1 || len(more) == 1 && !strings.HasPrefix(more[0], "Write") {
				t.Errorf("read again it is %q with %q", again.Words(), more)
			}
		})
	}
}
