package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const modulePath = "nightcrier.dev/nightcrier"

// root returns the root of the source tree.
func root(t *testing.T) string {
	t.Helper()
	dir, err := rootDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func rootDir() (string, error) {
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "go.mod"))
	}
	return dir, err
}

// doc returns the lines of a file in docs/.
func doc(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root(t), "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n")
}

// tables returns the cells of every row below a header with these columns, in
// all tables of the document that have it.
func tables(lines []string, header ...string) [][]string {
	var rows [][]string
	in := false
	for _, line := range lines {
		row := cells(line)
		switch {
		case row == nil:
			in = false
		case equal(row, header):
			in = true
		case in && !isRule(row):
			rows = append(rows, row)
		}
	}
	return rows
}

// cells splits a table's row, or returns nil for another line.
func cells(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	parts := strings.Split(strings.Trim(line, "|"), "|")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

func equal(row, header []string) bool {
	return strings.EqualFold(strings.Join(row, "|"), strings.Join(header, "|"))
}

func isRule(row []string) bool { return strings.Trim(strings.Join(row, ""), ":- ") == "" }
