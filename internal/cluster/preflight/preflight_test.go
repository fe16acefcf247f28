package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authz "k8s.io/api/authorization/v1"

	"nightcrier.dev/nightcrier"
)

// cluster answers as its fields say.
type cluster struct {
	rules      []authz.ResourceRule
	other      []authz.NonResourceRule
	incomplete string
	rulesErr   error
	may        func(authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error)
	asked      atomic.Int32 // single questions
	listed     atomic.Int32
}

func (c *cluster) Rules(context.Context, string) (authz.SubjectRulesReviewStatus, error) {
	c.listed.Add(1)
	return authz.SubjectRulesReviewStatus{ResourceRules: c.rules, NonResourceRules: c.other, Incomplete: c.incomplete != "", EvaluationError: c.incomplete}, c.rulesErr
}

func (c *cluster) May(_ context.Context, what authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
	c.asked.Add(1)
	if c.may == nil {
		return authz.SubjectAccessReviewStatus{}, nil
	}
	return c.may(what)
}

func grant(verbs, group, resources string, names ...string) authz.ResourceRule {
	return authz.ResourceRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: strings.Split(resources, ","), ResourceNames: names}
}

var reader = grant("get,list,watch", "", "pods,pods/log,events,nodes")

func ids(risks []Risk) (out []string) {
	for _, r := range risks {
		out = append(out, r.ID+"="+string(r.Answer))
	}
	return out
}

func TestWhatListedRulesMean(t *testing.T) {
	tests := map[string]struct {
		rules []authz.ResourceRule
		want  Answer
		risks []string // all of them
	}{
		"nothing":                     {nil, No, nil},
		"a reader":                    {[]authz.ResourceRule{reader}, No, nil},
		"asks questions":              {[]authz.ResourceRule{reader, grant("create", "authorization.k8s.io", "selfsubjectaccessreviews,selfsubjectrulesreviews")}, No, nil},
		"uses a policy":               {[]authz.ResourceRule{grant("use", "policy", "podsecuritypolicies")}, No, nil},
		"reads secrets":               {[]authz.ResourceRule{grant("get", "", "secrets")}, No, []string{"secrets=yes"}},
		"reads one secret":            {[]authz.ResourceRule{grant("get", "", "secrets", "mine")}, No, nil},
		"scales":                      {[]authz.ResourceRule{grant("patch", "apps", "deployments/scale")}, Yes, []string{"workloads=yes"}},
		"any subresource of a name":   {[]authz.ResourceRule{grant("update", "apps", "*/scale")}, Yes, []string{"workloads=yes"}},
		"writes one object":           {[]authz.ResourceRule{grant("update", "", "configmaps", "leader")}, Yes, nil},
		"a kind nobody heard of":      {[]authz.ResourceRule{grant("delete", "example.org", "widgets")}, Yes, nil},
		"a verb nobody heard of":      {[]authz.ResourceRule{grant("launch", "example.org", "rockets")}, Yes, nil},
		"exec by WebSocket":           {[]authz.ResourceRule{grant("get", "", "pods/exec")}, Yes, []string{"exec=yes"}},
		"the kubelet by get":          {[]authz.ResourceRule{grant("get", "", "nodes/proxy")}, Yes, []string{"nodes=yes"}},
		"reads everything, or so":     {[]authz.ResourceRule{grant("get,list,watch", "*", "*")}, Yes, []string{"nodes=yes", "exec=yes", "proxy=yes", "secrets=yes"}},
		"impersonates":                {[]authz.ResourceRule{grant("impersonate", "", "groups")}, Yes, []string{"impersonate=yes"}},
		"binds":                       {[]authz.ResourceRule{grant("bind", rbacGroup, "clusterroles")}, Yes, []string{"rbac=yes"}},
		"tokens":                      {[]authz.ResourceRule{grant("create", "", "serviceaccounts/token")}, Yes, []string{"tokens=yes"}},
		"approves certificates":       {[]authz.ResourceRule{grant("update", certGroup, "certificatesigningrequests/approval")}, Yes, []string{"certificates=yes"}},
		"changes admission":           {[]authz.ResourceRule{grant("patch", admitGroup, "mutatingwebhookconfigurations")}, Yes, []string{"admission=yes"}},
		"administrator":               {[]authz.ResourceRule{grant("*", "*", "*")}, Yes, []string{"everything=yes"}},
		"every verb on one":           {[]authz.ResourceRule{grant("*", "", "persistentvolumeclaims")}, Yes, []string{"storage=yes"}},
		"read verbs of another group": {[]authz.ResourceRule{grant("get", "example.org", "pods/exec")}, No, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := &cluster{rules: tt.rules}
			r, err := Check(t.Context(), c, "prod", "shop", time.Time{})
			if err != nil || r.CanWrite != tt.want || !slices.Equal(ids(r.Risks), tt.risks) {
				t.Errorf("%v: write %s, risks %v, ways %q", err, r.CanWrite, ids(r.Risks), r.Writes)
			}
			if (r.CanWrite == Yes) != (len(r.Writes) > 0) || c.asked.Load() != 0 {
				t.Errorf("ways %q, %d single questions about rules that are complete", r.Writes, c.asked.Load())
			}
		})
	}
}

func TestNonResourceWrites(t *testing.T) {
	c := &cluster{other: []authz.NonResourceRule{{Verbs: []string{"get", "head"}, NonResourceURLs: []string{"/healthz"}}}}
	if r, err := Check(t.Context(), c, "c", "", time.Time{}); err != nil || r.CanWrite != No {
		t.Errorf("%v %+v", err, r.Writes)
	}
	c.other = append(c.other, authz.NonResourceRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}})
	if r, err := Check(t.Context(), c, "c", "", time.Time{}); err != nil || r.CanWrite != Yes {
		t.Errorf("%v %+v", err, r.Writes)
	}
}

// allow answers yes to what is listed and no to the rest.
func allow(listed ...string) func(authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
	return func(a authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
		res := strings.TrimSuffix(a.Resource+"/"+a.Subresource, "/")
		return authz.SubjectAccessReviewStatus{Allowed: slices.Contains(listed, a.Verb+" "+res)}, nil
	}
}

func TestAnIncompleteListIsAskedOneByOne(t *testing.T) {
	lost := errors.New("the webhook is down")
	tests := map[string]struct {
		c      *cluster
		want   Answer
		probed bool
		pods   Answer
		why    string
	}{
		"no single yes":          {&cluster{rules: []authz.ResourceRule{reader}, incomplete: "webhook authorizer"}, Unknown, true, Yes, "webhook authorizer"},
		"only single answers":    {&cluster{incomplete: "webhook", may: allow("list pods", "get secrets")}, Unknown, true, Yes, "webhook"},
		"a yes that no rule has": {&cluster{incomplete: "webhook", may: allow("create pods/exec")}, Yes, true, No, "webhook"},
		"a listed write":         {&cluster{rules: []authz.ResourceRule{grant("delete", "", "pods")}, incomplete: "webhook"}, Yes, true, No, "webhook"},
		"nobody answers": {&cluster{incomplete: "webhook", may: func(authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
			return authz.SubjectAccessReviewStatus{}, lost
		}}, Unknown, false, Unknown, "the webhook is down"},
		"no list, single answers": {&cluster{rulesErr: errors.New("forbidden"), may: allow("list pods")}, Unknown, true, Yes, "lists no rules: forbidden"},
		"an authorizer that fails": {&cluster{incomplete: "x", may: func(authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
			return authz.SubjectAccessReviewStatus{EvaluationError: "timeout"}, nil
		}}, Unknown, true, Unknown, "x"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := Check(t.Context(), tt.c, "prod", "shop", time.Time{})
			if err != nil || r.CanWrite != tt.want || r.Probed != tt.probed || r.Can["list pods"] != tt.pods || !strings.Contains(strings.Join(r.Unknown, "; "), tt.why) {
				t.Errorf("%v: write %s, probed %v, list pods %s, unknown %q", err, r.CanWrite, r.Probed, r.Can["list pods"], r.Unknown)
			}
		})
	}
}

func TestNoAnswerAtAllIsAnError(t *testing.T) {
	down := nightcrier.Errorf(nightcrier.Unreachable, "down")
	c := &cluster{rulesErr: down, may: func(authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
		return authz.SubjectAccessReviewStatus{}, down
	}}
	if _, err := Check(t.Context(), c, "prod", "shop", time.Time{}); !errors.Is(err, down) || c.asked.Load() != 1 {
		t.Errorf("%v after %d questions", err, c.asked.Load())
	}
}

// TestAClusterThatDiesIsNotWaitedFor: after the first question without an
// answer the others are not asked.
func TestAClusterThatDiesIsNotWaitedFor(t *testing.T) {
	down := nightcrier.Errorf(nightcrier.Unreachable, "down")
	c := &cluster{incomplete: "webhook", may: func(authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
		return authz.SubjectAccessReviewStatus{}, down
	}}
	r, err := Check(t.Context(), c, "prod", "shop", time.Time{})
	if err != nil || r.Probed || c.asked.Load() > 2*atOnce {
		t.Errorf("%v, probed %v, %d questions", err, r.Probed, c.asked.Load())
	}
}

func TestClusterWideQuestionsNameNoNamespace(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]string{}
	c := &cluster{incomplete: "x", may: func(a authz.ResourceAttributes) (authz.SubjectAccessReviewStatus, error) {
		mu.Lock()
		defer mu.Unlock()
		seen[a.Verb+" "+a.Resource+"/"+a.Subresource] = a.Namespace
		return authz.SubjectAccessReviewStatus{}, nil
	}}
	if _, err := Check(t.Context(), c, "prod", "shop", time.Time{}); err != nil {
		t.Fatal(err)
	}
	if seen["get nodes/"] != "" || seen["get nodes/proxy"] != "" || seen["get pods/log"] != "shop" || seen["create pods/exec"] != "shop" || seen["* */"] != "" {
		t.Errorf("%v", seen)
	}
}

func TestPermissionsForPeopleAndPrograms(t *testing.T) {
	r, err := Check(t.Context(), &cluster{rules: []authz.ResourceRule{reader, grant("get", "", "secrets"), grant("create", "", "pods/exec")}}, "prod", "shop", time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	p := r.Permissions()
	for key, want := range map[string]any{"cluster": "prod", "namespace": "shop", "canListPods": true, "canGetLogs": true, "canGetWorkload": false,
		"canGetSecrets": true, "canWrite": "yes",
		"worstCase": "it can run commands in containers and reach their ports; read Secrets, and so hold what they give access to"} {
		if p[key] != want {
			t.Errorf("%s is %v, want %v", key, p[key], want)
		}
	}
	if !slices.Contains(p["cannotRead"].([]string), "list deployments.apps") || p["unknownReads"] != nil || p["incomplete"] != nil {
		t.Errorf("%v", p)
	}
	if _, err := json.Marshal(p); err != nil {
		t.Error(err)
	}
}

// TestHostileAnswersAreBounded: a cluster decides how many rules it lists and
// what they are called.
func TestHostileAnswersAreBounded(t *testing.T) {
	var many []authz.ResourceRule
	for range 5000 {
		many = append(many, grant("delete", "example.org", strings.Repeat("x\n", 500)+nightcrier.NewID()))
	}
	r, err := Check(t.Context(), &cluster{rules: many, incomplete: strings.Repeat("no\n", 5000)}, "prod", "shop", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(r.Permissions())
	if err != nil || len(raw) > 1<<18 || len(r.Writes) > maxListed {
		t.Errorf("%v: %d bytes, %d ways", err, len(raw), len(r.Writes))
	}
	if strings.Contains(r.WorstCase()+strings.Join(r.Unknown, ""), "\n") || len(r.WorstCase()) > 2000 {
		t.Errorf("%q", r.WorstCase())
	}
}

func TestWorstCase(t *testing.T) {
	tests := map[string]struct {
		r    Result
		want string
	}{
		"reads":       {Result{CanWrite: No}, "it can change nothing"},
		"unseen":      {Result{CanWrite: Unknown, Probed: true}, "no way to change anything was found, but the cluster could not list every rule"},
		"unanswered":  {Result{CanWrite: Unknown}, "not known: the cluster did not answer what it may do"},
		"a way only":  {Result{CanWrite: Yes, Writes: []string{"delete widgets (example.org)"}}, "it can delete widgets (example.org)"},
		"and secrets": {Result{CanWrite: Yes, Writes: []string{"delete widgets"}, Risks: []Risk{{"secrets", Yes, "read Secrets"}}}, "it can read Secrets; delete widgets"},
		"perhaps":     {Result{CanWrite: Unknown, Probed: true, Risks: []Risk{{"exec", Unknown, "run commands"}}}, "no way to change anything was found, but the cluster could not list every rule"},
	}
	for name, tt := range tests {
		if got := tt.r.WorstCase(); got != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
