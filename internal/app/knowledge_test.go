package app

import (
	"os"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier/internal/agent/knowledge"
	"nightcrier.dev/nightcrier/internal/triage/runbook"
)

// What is known of a service stands behind the runbooks of an incident of its workload, and of no other.
func TestAnIncidentIsGivenItsService(t *testing.T) {
	repo := t.TempDir()
	dir := filepath.Join(repo, ".agentura/services/cart")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "SERVICE.md"), []byte("# cart\n\n- Workloads: `cart-web`\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	books, err := runbook.New(runbook.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := memory{nil, books, &knowledge.Library{Repositories: []string{repo, filepath.Join(repo, "none")}}}
	list, problems := m.For(t.Context(), runbook.Case{Names: []string{"", "cart-web-5d9-x"}})
	if len(problems) > 0 || len(list) != 1 || list[0].Title != "What is known of the service cart" || list[0].Text != "# cart\n\n- Workloads: `cart-web`" || list[0].Source != dir {
		t.Errorf("%+v %v", list, problems)
	}
	if list, _ := m.For(t.Context(), runbook.Case{Names: []string{"", "shop"}}); len(list) > 0 {
		t.Errorf("another incident is given %+v", list)
	}
}
