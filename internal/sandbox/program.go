package sandbox

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"nightcrier.dev/nightcrier"
)

// ProgramFiles lists what must be readable for the program at path to run, beside the
// system's files: the file that it really is, its npm packages, and the interpreter that
// its first line names.
func ProgramFiles(path string) ([]string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "program: %w", err)
	}
	files := []string{real, path}
	if i := strings.Index(real, "/node_modules/"); i >= 0 {
		files = append(files, real[:i+len("/node_modules")])
	}
	if interpreter := shebangProgram(real); interpreter != "" {
		if link, err := exec.LookPath(interpreter); err == nil {
			if p, err := filepath.EvalSymlinks(link); err == nil {
				files = append(append(files, p, link), libraryOf(p)...)
			}
		}
	}
	return files, nil
}

// localBin is where interpreters lie that the system does not bring, with what belongs to
// them in localLib.
const (
	localBin = "/usr/local/bin/"
	localLib = "/usr/local/lib"
)

// libraryOf is where an interpreter has its own library, nil when that is the system's.
func libraryOf(interpreter string) []string {
	if strings.HasPrefix(interpreter, localBin) {
		return []string{localLib}
	}
	return nil
}

// shebangProgram returns the program of a script's first line; of env's argument, the
// program that env will look up. Empty when the file is no script.
func shebangProgram(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if !strings.HasPrefix(line, "#!") || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, w := range words[1:] {
		if !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}
