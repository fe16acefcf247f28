package workdir

import (
	"encoding/json"
	"fmt"
	"os"
)

// Guest is an attempt that a worker's process is asked to do beside its own. It is asked at the
// socket of the directory that holds all workers.
type Guest struct {
	// Name is that of the attempt's directory.
	Name string `json:"name"`
	// Program and Env are what a process of its own would be: another one does not take it.
	Program string          `json:"program"`
	Env     []string        `json:"env"`
	Secrets json.RawMessage `json:"secrets"`
}

// NotTaken is the word of a process that does not take a guest.
const NotTaken = "not taken"

// IdentifyProgram tells one build of a program from another, "" where it is not there.
func IdentifyProgram(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
}
