package selftest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/check/selftest/internal/target"
)

func packed(t *testing.T, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A secret is found in a packed record too: as it is, encoded there, and in one that was
// cut.
func TestPackedFilesAreSearched(t *testing.T) {
	const canary = "canary-of-the-tape-0123456789"
	filler := bytes.Repeat([]byte("what nobody minds, 0123456789abcdef\n"), 4000)
	tape := packed(t, append([]byte(`{"ask":"a","text":"`+canary+`"}`+"\n"), filler...))
	for name, content := range map[string][]byte{
		"prepare.jsonl.gz": tape,
		"check.jsonl.gz":   packed(t, []byte(`{"ask":"a","bytes":"`+base64.StdEncoding.EncodeToString([]byte("x"+canary+"yy"))+`"}`)),
		"cut.jsonl.gz":     tape[:len(tape)-20],
		"named-otherwise":  tape,
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "record"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "record", name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		sieve := target.NewSieve([]target.Canary{{Value: canary}})
		if len(sieve.FindIn(string(content))) > 0 {
			t.Fatal("the canary stands there unpacked")
		}
		sinks, err := Trail{Workspace: dir}.allSinks()
		if err != nil || len(sieve.FindIn(sinks["record/"+name])) == 0 {
			t.Errorf("%s: not found, %v", name, err)
		}
	}
}

// What would fill the memory is refused, not passed over.
func TestPackedBombsAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("it packs 160 MiB")
	}
	bomb := packed(t, make([]byte, maxUnpacked+1))
	if _, err := Unpack("bomb.gz", bomb); nightcrier.CodeOf(err) != nightcrier.Exhausted {
		t.Errorf("unpacked: %v", err)
	}
}
