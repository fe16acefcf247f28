package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

const about = `Nightcrier watches Kubernetes clusters for faults, has each one investigated by an
agent in a sandbox that cannot change anything, and hands you a report whose
facts were checked.

  nightcrier demo                       see it work, without a cluster or a key
  nightcrier triage deployment/cart     investigate one thing now
  nightcrier ask "why is cart slow?"    the same, asked in words
  nightcrier serve --config FILE        watch clusters
  nightcrier guard -- kubectl get pods  run any command with read-only access

Exit codes: 0 done, 1 failure, 2 wrong usage or configuration, 3 no valid report,
4 not found, 5 refused by policy, 6 a check found something, 7 unreachable or
denied, 130 interrupted.`

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "nightcrier", Short: "Investigate faults in Kubernetes clusters", Long: about,
		SilenceErrors: true, SilenceUsage: true,
		Args: checkArgs(unknownCommand),
		RunE: p.runRoot,
	}
	root.PersistentFlags().StringVar(&p.configFile, "config", "", "configuration file")
	configFlags(root, "mcp-endpoint", "workspace-root", "agent-timeout", "log-level")
	root.SetFlagErrorFunc(flagUsage)
	root.Version = buildVersion().String()
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.SetUsageTemplate(strings.NewReplacer(
		"Flags.FlagUsages", fmt.Sprintf("Flags.FlagUsagesWrapped %d", p.width),
		"{{if .HasHelpSubCommands}}", "{{with .Annotations."+keysElsewhere+"}}\n\n{{.}}{{end}}{{if .HasHelpSubCommands}}").Replace(root.UsageTemplate()))
	root.AddCommand(p.demoCommand(), p.serveCommand(), p.pageCommand(), p.triageCommand(), p.askCommand(), p.incidentsCommand(), p.runsCommand(), p.approvalsCommand(), p.runCommand(), p.eventsCommand(),
		p.clustersCommand(), p.budgetCommand(), p.configCommand(), p.doctorCommand(), p.rbacCommand(), p.skillsCommand(), p.indexCommand(), p.reviewCommand(), p.pipelinesCommand(), p.toolsCommand(), p.guardCommand(), p.snapshotCommand(), p.auditCommand(), p.replayCommand(), p.mcpCommand(), p.evalCommand(), p.selftestCommand(), p.versionCommand())
	boundTo(runtime.GOOS, root.Commands())
	p.foldHelp(root)
	return root
}

// refuseShells has completion refuse a shell that it does not know, as every other group
// refuses a command.
func refuseShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = checkArgs(unknownCommand)
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// foldHelp breaks what a command says of itself, and those below it, into lines that the
// terminal has room for.
func (p *program) foldHelp(cmd *cobra.Command) {
	if p.width > 0 {
		cmd.Long = foldParagraphs(cmd.Long, min(p.width, widestHelp))
	}
	for _, sub := range cmd.Commands() {
		p.foldHelp(sub)
	}
}

// widestHelp is how many characters a line of a text has at most to be read easily.
const widestHelp = 88

// foldParagraphs folds each run of lines that begin at the margin. Lines that are
// indented, such as those of a list, stay as they are.
func foldParagraphs(text string, room int) string {
	var folded, paragraph []string
	for line := range strings.SplitSeq(text+"\n", "\n") {
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		if len(paragraph) > 0 {
			folded, paragraph = append(folded, wrapText(strings.Join(paragraph, " "), room)...), nil
		}
		folded = append(folded, line)
	}
	return strings.TrimRight(strings.Join(folded, "\n"), "\n")
}

// runRoot serves when it is told what to watch, as a container without
// arguments is; otherwise it explains itself.
func (p *program) runRoot(cmd *cobra.Command, _ []string) error {
	if p.configFile == "" && !cmd.Flags().Changed("mcp-endpoint") && p.envVariable("K8S_CLUSTER_MCP_ENDPOINT") == "" {
		return cmd.Help()
	}
	if err := runsOn(runtime.GOOS, "serve"); err != nil {
		return err
	}
	return p.runServer(cmd)
}

// groupCommand is a command that only holds others.
func groupCommand(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: checkArgs(unknownCommand),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(commands...)
	return cmd
}

// unknownCommand refuses arguments where a subcommand was expected.
func unknownCommand(cmd *cobra.Command, given []string) error {
	if len(given) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	said := fmt.Sprintf("unknown command %q for %q", given[0], cmd.CommandPath())
	if near := nearestOf(cmd.SuggestionsFor(given[0]), given[0]); len(near) > 0 {
		said += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%s", said)
}

// nearestOf keeps of the names that one may stand for those that it is closest to.
func nearestOf(names []string, to string) (nearest []string) {
	least := 0
	for _, name := range names {
		switch d := text.CountEdits(to, name); {
		case nearest == nil || d < least:
			nearest, least = []string{name}, d
		case d == least:
			nearest = append(nearest, name)
		}
	}
	return nearest
}

// bound are the commands that run on some systems only, by name, and why. All others run
// wherever the program can be built; what is confined needs Linux everywhere.
var bound = map[string]struct {
	systems []string
	why     string
}{
	"serve":    {[]string{"linux", "darwin"}, "its workers outlive it, which takes a Unix system"},
	"demo":     {[]string{"linux", "darwin"}, "it starts a server, which takes a Unix system"},
	"selftest": {[]string{"linux"}, "what it attacks is the sandbox of agents, which is Linux's"},
}

// runsOn is a Refused error where a command does not run on a system.
func runsOn(system, command string) error {
	b, ok := bound[command]
	if !ok || slices.Contains(b.systems, system) {
		return nil
	}
	return nightcrier.Errorf(nightcrier.Refused, "%s does not run on %s, only on %s: %s", command, system, strings.Join(b.systems, " and "), b.why)
}

// boundTo has commands that do not run on a system say so.
func boundTo(system string, commands []*cobra.Command) {
	for _, cmd := range commands {
		if err := runsOn(system, cmd.Name()); err != nil {
			cmd.RunE = func(*cobra.Command, []string) error { return err }
		}
	}
}

// release is set by the linker when a release is built.
var release = ""

// build says what this binary is.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// String is what people are told.
func (b build) String() string {
	return fmt.Sprintf("nightcrier %s (%s, %s)", b.Version, b.Go, b.Platform)
}

func buildVersion() build {
	b := build{Version: cmp.Or(release, "dev"), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; release == "" && v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (p *program) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print the version", Args: checkArgs(noArgs)}
	p.formatFlag(cmd, "text", "json")
	cmd.RunE = func(*cobra.Command, []string) error {
		if p.format == "json" {
			return p.printJSON(buildVersion())
		}
		fmt.Fprintln(p.stdout, buildVersion())
		return nil
	}
	return cmd
}
