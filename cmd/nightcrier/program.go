package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// program is what all commands share.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	now            func() time.Time
	colour         bool
	// width is the terminal's; 0 is without end.
	width int
	// messageWidth is that of the terminal that messages go to, 0 where they go to none.
	messageWidth  int
	messageColour bool
	// Of the flags that many commands have.
	configFile, server, format string
	// signals counts what the user or the service manager asked for.
	signals chan os.Signal
}

// exitCodes is the one place where codes become exit codes.
var exitCodes = map[nightcrier.Code]int{
	nightcrier.Internal:    1,
	nightcrier.Conflict:    1,
	nightcrier.Exhausted:   1,
	nightcrier.Invalid:     2,
	nightcrier.NoReport:    3,
	nightcrier.NotFound:    4,
	nightcrier.Refused:     5,
	nightcrier.Unreachable: 7,
	nightcrier.Interrupted: 130,
}

// foundExit is the exit code of a check that ran well and found something.
const foundExit = 6

// errFound is returned when a check has said on stdout what it found.
var errFound = errors.New("the check found something")

// errSilent carries an exit code when everything was said already.
type errSilent struct{ code nightcrier.Code }

// Error implements error.
func (e errSilent) Error() string { return string(e.code) }

// hinted is an error with a line on what to do next.
type hinted struct {
	error
	hint string
}

// Unwrap returns the error below the hint.
func (h hinted) Unwrap() error { return h.error }

// runCommandLine executes the command line and returns the exit code.
func (p *program) runCommandLine(ctx context.Context, args []string) int {
	p.signals = make(chan os.Signal, 4)
	signal.Notify(p.signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(p.signals)
	root := p.rootCommand()
	refuseShells(root)
	root.SetArgs(args)
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	return p.exitCodeFor(root.ExecuteContext(ctx))
}

// exitCodeFor reports err and returns its exit code.
func (p *program) exitCodeFor(err error) int {
	var silent errSilent
	var exit errExit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.Is(err, errFound):
		return foundExit
	case errors.As(err, &silent):
		return exitCodes[silent.code]
	}
	said := strings.TrimSpace(err.Error())
	if strings.Contains(said, "\n") {
		said = "several things are wrong:\n  " + strings.ReplaceAll(said, "\n", "\n  ")
	}
	fmt.Fprintln(p.stderr, "nightcrier: "+text.DropHidden(said))
	var h hinted
	if errors.As(err, &h) {
		fmt.Fprintln(p.stderr, "  "+h.hint)
	}
	return exitCodes[nightcrier.CodeOf(err)]
}

// usageError makes a wrong command line an Invalid error that points to the help.
func usageError(cmd *cobra.Command, err error) error {
	if err == nil {
		return nil
	}
	return hinted{nightcrier.Errorf(nightcrier.Invalid, "%w", err), "see `" + cmd.CommandPath() + " --help`"}
}

// flagUsage says what is wrong with a flag in our words, where pflag's are those of a
// programmer.
func flagUsage(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		err = fmt.Errorf("%w%s", err, text.SuggestName("; did you mean --%s?", unknown.GetSpecifiedName(), flagNames(cmd)))
	case errors.As(err, &wrong):
		if wanted := wantedOf(wrong.GetFlag().Value.Type()); wanted != "" {
			err = fmt.Errorf("flag --%s: %q is not %s", wrong.GetFlag().Name, wrong.GetValue(), wanted)
		} else {
			err = fmt.Errorf("flag --%s: %w", wrong.GetFlag().Name, wrong.Unwrap())
		}
	}
	return usageError(cmd, err)
}

// wantedOf is what the flags of a type take; "" where they say it themselves.
func wantedOf(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "int", "int64", "uint64":
		return "a whole number, such as 20"
	case "float64":
		return "a number, such as 0.9"
	case "dollars":
		return "an amount of dollars, such as 2 or 0.50, and a million at most"
	case "duration":
		return "a duration, such as 90s, 30m or 24h"
	}
	return ""
}

func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// checkArgs wraps a check of arguments in a usageError.
func checkArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		err := check(cmd, given)
		word := slices.IndexFunc(given, func(s string) bool { return s == "true" || s == "false" })
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if err != nil && word >= 0 && f.NoOptDefVal != "" {
				err = fmt.Errorf("%q stands alone: a switch has its value behind a =, such as --%s=%s", given[word], f.Name, given[word])
			}
		})
		return usageError(cmd, err)
	}
}

// noArgs wants no argument.
func noArgs(cmd *cobra.Command, given []string) error {
	if len(given) > 0 {
		return fmt.Errorf("%s takes no argument, %q was given", cmd.CommandPath(), given[0])
	}
	return nil
}

// unreadable is why a file that a flag names cannot be read.
func unreadable(flag, file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return nightcrier.Errorf(nightcrier.Invalid, "%s %s: %w", flag, file, err)
}

// judged is a flag whose value is taken in as it is read, so that a wrong one is told
// before anybody is asked.
type judged struct {
	text string
	take func(string) error
}

func (j *judged) String() string { return j.text }

// Type implements pflag.Value.
func (j *judged) Type() string { return "string" }

// Set implements pflag.Value.
func (j *judged) Set(s string) error {
	j.text = s
	return j.take(s)
}

// limitFlag gives cmd --limit, for a list of things.
func limitFlag(cmd *cobra.Command, limit *int, things string) {
	*limit = 100
	cmd.Flags().Var(&judged{text: "100", take: func(s string) (err error) {
		if *limit, err = strconv.Atoi(s); err != nil || *limit < 1 || *limit > mostListed {
			return fmt.Errorf("%q is not a whole number from 1 to %d", s, mostListed)
		}
		return nil
	}}, "limit", fmt.Sprintf("most %s to list, %d at most", things, mostListed))
}

// mostListed is how many a server lists at once.
const mostListed = 1000

// oneArg wants one argument, which is called what, and asks for it in its own words.
func oneArg(what, question string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return errors.New(question)
		}
		return atMostOne(what)(cmd, given)
	}
}

// atMostOne wants one argument or none.
func atMostOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, given []string) error {
		if len(given) > 1 {
			return fmt.Errorf("one %s is taken, %d were given", what, len(given))
		}
		return nil
	}
}

// withInterrupt returns a context that the first signal cancels.
func (p *program) withInterrupt(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-p.signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// loadWithWarnings reads the configuration with the flags that cmd was given. Its warnings
// are returned for the command to show where they belong.
func (p *program) loadWithWarnings(cmd *cobra.Command) (*config.Config, []config.Warning, error) {
	return p.loadFrom(p.configOptions(cmd))
}

func (p *program) loadFrom(o config.Options) (*config.Config, []config.Warning, error) {
	cfg, warnings, err := config.Load(o)
	if err != nil {
		return nil, warnings, hinted{err, "every key is explained in docs/configuration.md; `nightcrier config print` shows the effective ones"}
	}
	return cfg, warnings, nil
}

func (p *program) configOptions(cmd *cobra.Command) config.Options {
	o := config.Options{File: p.configFile, Env: p.environ, Flags: map[string]string{}, Typed: map[string]string{}}
	for _, f := range config.Flags() {
		if flag := cmd.Flags().Lookup(f.Name); flag != nil && flag.Changed {
			o.Flags[f.Name] = flag.Value.String()
		}
	}
	return o
}

// standsFor checks a flag of a command as the key that it stands for, and has messages
// name what was typed.
func standsFor(o config.Options, flag, key, value string) {
	o.Flags[key], o.Typed[key] = value, flag
}

// configFlags gives cmd the flags of the configuration's keys: those named, or
// all of them, which its help then lists behind the command's own.
func configFlags(cmd *cobra.Command, names ...string) {
	cmd.Flags().SortFlags = len(names) > 0
	for _, f := range config.Flags() {
		for _, name := range names {
			if f.Name == name {
				configFlag(cmd, f)
			}
		}
		if len(names) == 0 {
			configFlag(cmd, f)
		}
	}
}

// keysElsewhere marks commands whose help names few of their flags of the configuration.
const keysElsewhere = "keys"

// fewConfigFlags gives cmd the flags of all keys, of which its help lists those that are
// named, and says where the others are.
func fewConfigFlags(cmd *cobra.Command, listed ...string) {
	configFlags(cmd)
	for _, f := range config.Flags() {
		cmd.Flags().Lookup(f.Name).Hidden = !slices.Contains(listed, f.Name)
	}
	cmd.Annotations = map[string]string{keysElsewhere: "Configuration keys are flags as well; nightcrier serve --help lists them all."}
}

func configFlag(cmd *cobra.Command, f config.Flag) {
	text := f.Usage
	switch {
	case f.Switch && f.Default == "true":
		text += " (default true, =false turns it off)"
	case f.Default != "":
		text += " (default " + f.Default + ")"
	}
	if f.Switch {
		cmd.Flags().VarPF(new(toggle), f.Name, "", text).NoOptDefVal = "true"
		return
	}
	cmd.Flags().String(f.Name, "", text)
}

// toggle is the value of a switch, which the configuration checks.
type toggle string

func (t *toggle) String() string { return string(*t) }

// Set implements pflag.Value.
func (t *toggle) Set(s string) error {
	*t = toggle(s)
	return nil
}

// Type has help show that nothing need follow.
func (t *toggle) Type() string { return "bool" }

// envVariable returns an environment variable.
func (p *program) envVariable(name string) string {
	for _, line := range p.environ {
		if value, ok := strings.CutPrefix(line, name+"="); ok {
			return value
		}
	}
	return ""
}
