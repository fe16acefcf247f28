package readonly

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// Spellings by which a shell or a program finds more in a command than its words.
func TestSpellings(t *testing.T) {
	for _, c := range []string{
		// Quotes around nothing keep no shell from expanding a brace: the second word
		// is a kubeconfig whose plug-in is any program.
		`kubectl get {pods"",--kubeconfig=output/kc}`, `kubectl get {pods'',--kubeconfig=output/kc}`, `kubectl get {"pods",--raw=/api}`,
		`kubectl get pods -o {json"",--kubeconfig=output/kc}`, `kubectl get pods -n={x"",--server=http://evil}`, `kubectl get pods{""""'',-fx}`,
		`{kubectl'',get} pods`, `cat {context/a"",/etc/shadow}`, `grep x {context/a'',../x}`, `head {'a'{'b',/etc/shadow}}`, `ls {'',/}`,
		`kubectl get pods -o jsonpath={.items[*]"".x,--raw=/api}`, `kubectl get {a""..c}`,
		// jq's environment, as its versions read it.
		`jq -n '$ ENV'`, "jq -n '$\tENV.HOME'", "jq -n '$#\nENV.HOME'", `jq -n '. as $x | $ENV.HOME'`, `jq -n '"\($ ENV)"'`, `jq -n '$ __prog_args'`, `jq '$__loc__'`,
	} {
		if err := checker.Check(c); err == nil {
			t.Errorf("%q is allowed", c)
		}
	}
}

// Of every word that can be made of a few pieces, a real shell makes what we read.
func TestWordsAreTheShells(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("SKIPPED ALOUD: no bash here to compare with")
	}
	words := []string{""}
	var read []string
	var script strings.Builder
	script.WriteString("w() { printf '%s\\0' \"$#\" \"${@:2}\"; }\n")
	for range 6 {
		var longer []string
		for _, w := range words {
			for _, piece := range []string{"{", "}", ",", "a", "..", `""`, `'b,'`, `"\\"`} {
				longer = append(longer, w+piece)
			}
		}
		words = longer
		if len(words) > 1<<16 {
			words = everyNth(words, len(words)>>16)
		}
		for _, w := range words {
			all, err := parseCalls("echo " + w)
			if err != nil {
				continue
			}
			script.WriteString("w 1 " + w + "\n")
			read = append(read, "2", all[0][1].text)
		}
	}
	if len(read) < 1000 {
		t.Fatalf("only %d words were read", len(read)/2)
	}
	cmd := exec.CommandContext(t.Context(), bash)
	cmd.Dir, cmd.Env, cmd.Stdin = t.TempDir(), []string{}, strings.NewReader(script.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	ran := strings.Split(string(bytes.TrimSuffix(out, []byte{0})), "\x00")
	for i := 0; i < len(read) && i < len(ran); i++ {
		if ran[i] != read[i] {
			t.Fatalf("word %d: the shell makes %q, we read %q", i/2, ran[i:min(i+4, len(ran))], read[i:min(i+4, len(read))])
		}
	}
	if len(ran) != len(read) {
		t.Errorf("the shell makes %d words, we read %d", len(ran), len(read))
	}
}

func everyNth(words []string, n int) (some []string) {
	for i := 0; i < len(words); i += n {
		some = append(some, words[i])
	}
	return some
}
