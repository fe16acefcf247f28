// Command workload is what the containers of the one-node cluster in tests run,
// and their pause container: it does well or ill as its flags say. Without flags
// it waits to be told to end.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	say := flag.String("say", "", "lines to print first, separated by |")
	demand := flag.String("demand", "", "file that must exist: without it the program says so and exits with 1")
	write := flag.String("write", "", "file to fill with -mib mebibytes")
	eat := flag.Bool("eat", false, "take memory without end")
	mib := flag.Int("mib", 64, "how much -write writes")
	serve := flag.String("serve", "", "address to answer HTTP on")
	ill := flag.String("ill", "", "paths that are answered with 500, separated by commas")
	last := flag.Duration("for", 0, "end by itself after that time; 0: wait to be told")
	code := flag.Int("exit", -1, "end by itself with this code, after -for")
	flag.Parse()

	for line := range strings.SplitSeq(*say, "|") {
		fmt.Println(line)
	}
	if _, err := os.Stat(*demand); *demand != "" && err != nil {
		fail(err)
	}
	if *write != "" {
		fill(*write, *mib)
	}
	if *eat {
		eatMemory()
	}
	if *serve != "" {
		go answer(*serve, strings.Split(*ill, ","))
	}
	wait(*last, *code)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "FATAL:", err)
	os.Exit(1)
}

// wait ends the process by a time or when it is told to.
func wait(last time.Duration, code int) {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	var over <-chan time.Time
	if code >= 0 || last > 0 {
		over = time.After(last)
	}
	select {
	case <-told:
		os.Exit(0)
	case <-over:
		os.Exit(max(code, 0))
	}
}

func fill(path string, mib int) {
	f, err := os.Create(path)
	if err != nil {
		fail(err)
	}
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range mib {
		if _, err := f.Write(block); err != nil {
			fail(err)
		}
	}
}

// eatMemory touches what it takes, so that it counts.
func eatMemory() {
	for kept := [][]byte{}; ; {
		kept = append(kept, bytes.Repeat([]byte{1}, 4<<20))
	}
}

func answer(addr string, ill []string) {
	fail(http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(ill, r.URL.Path) {
			http.Error(w, "not well", http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "ok")
	})))
}
