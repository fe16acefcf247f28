package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/face/api/client"
	"nightcrier.dev/nightcrier/internal/guard/mcp"
	"nightcrier.dev/nightcrier/internal/oneshot"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/spf13/cobra"
)

const (
	mcpAddress = "127.0.0.1:8808"
	// mcpToken is the variable with the bearer token.
	mcpToken = "NIGHTCRIER_MCP_TOKEN"
	// minToken is the shortest token that is taken, in bytes.
	minToken = 16
)

// mcpFlags are the flags of mcp beside the configuration's.
type mcpFlags struct {
	kubeconfig, context, listen, tokenFile, executor, evidence, level string
	stdio, write                                                      bool
	record                                                            string
	policy                                                            oneshot.WritePolicy
}

// writeFlags are the flags that only a server that writes has, readFlags those that it has not.
var (
	writeFlags = []string{"namespace", "kind", "secret", "host", "key", "node-ports", "record"}
	readFlags  = []string{"evidence", "executor", "server"}
)

func (p *program) mcpCommand() *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{Use: "mcp", Short: "Give AI agents read-only access to clusters over MCP", Args: checkArgs(noArgs),
		Long: `Serves read-only Kubernetes tools, fault and event subscriptions, and investigations
over the Model Context Protocol: over HTTP at /mcp, or over stdin and stdout.

With --write it serves something else: tools that apply manifests to the namespaces that are
named, and delete what they applied. docs/deploy.md says what may be applied, and has the Role
for it. A credential that can do much more is refused.`,
		Example: `  nightcrier mcp --kubeconfig ~/.kube/config
  claude mcp add nightcrier -- nightcrier mcp --stdio
  nightcrier mcp --write --namespace apps --kubeconfig deployer.kubeconfig --stdio`}
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "credential; its contexts are the clusters to serve (default KUBECONFIG, then ~/.kube/config)")
	cmd.Flags().StringVar(&f.context, "context", "", "serve only this context")
	cmd.Flags().StringVar(&f.listen, "listen", mcpAddress, "address to listen on; one that is not loopback needs a token")
	cmd.Flags().BoolVar(&f.stdio, "stdio", false, "serve one client over stdin and stdout")
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "file with the bearer token that HTTP clients must present (or "+mcpToken+")")
	cmd.Flags().StringVar(&f.executor, "executor", config.Builtin, "agent that investigates")
	cmd.Flags().StringVar(&f.evidence, "evidence", "", "directory to keep every answer of a cluster in, under an id that the tools name")
	cmd.Flags().StringVar(&p.server, "server", "", "address of the server whose incidents are searched, http://host:port (default the server of workspace_root)")
	cmd.Flags().BoolVar(&f.write, "write", false, "serve tools that apply manifests, instead of those that read")
	cmd.Flags().StringArrayVar(&f.policy.Namespaces, "namespace", nil, "with --write: namespace to apply objects in; may be repeated")
	cmd.Flags().StringArrayVar(&f.policy.Kinds, "kind", nil, "with --write: apply only objects of this kind; may be repeated")
	cmd.Flags().StringArrayVar(&f.policy.Secrets, "secret", nil, "with --write: Secret that Pods and Ingresses may use by name; may be repeated")
	cmd.Flags().StringArrayVar(&f.policy.Hosts, "host", nil, "with --write: host that an Ingress may claim, such as *.apps.example.com; may be repeated")
	cmd.Flags().StringArrayVar(&f.policy.Keys, "key", nil, "with --write: label or annotation with a domain that manifests may set; may be repeated")
	cmd.Flags().BoolVar(&f.policy.NodePorts, "node-ports", false, "with --write: Services may be of type NodePort")
	cmd.Flags().StringVar(&f.record, "record", "", "with --write: file to which each write is appended (default deploy.jsonl in workspace_root)")
	cmd.Flags().StringVar(&f.level, "log-level", "warn", "lowest level that is logged to stderr")
	configFlags(cmd, "workspace-root")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.runMCP(cmd, f) }
	return cmd
}

func (p *program) runMCP(cmd *cobra.Command, f mcpFlags) error {
	if f.stdio && cmd.Flags().Changed("listen") {
		return usageError(cmd, fmt.Errorf("--stdio serves one client over stdin and stdout: leave --listen out"))
	}
	wrong, why := writeFlags, "is for a server that writes: add --write, or leave it out"
	if f.write {
		wrong, why = readFlags, "is for a server that reads: leave it out, or --write"
	}
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			return usageError(cmd, fmt.Errorf("--%s %s", name, why))
		}
	}
	o, err := p.mcpOptions(cmd, f)
	if err != nil {
		return err
	}
	ctx, stop := p.withInterrupt(cmd.Context())
	defer stop()
	if f.stdio {
		o.In, o.Out = asCloser(p.stdin), writeCloser{p.stdout}
		return oneshot.ServeMCP(ctx, o)
	}
	if o.Listener, err = oneshot.ListenOn("--listen", f.listen); err != nil {
		return err
	}
	defer o.Listener.Close() // closed already is as good
	o.Ready = func() { p.printMessage("MCP at http://%s/mcp", o.Listener.Addr()) }
	return oneshot.ServeMCP(ctx, o)
}

func (p *program) mcpOptions(cmd *cobra.Command, f mcpFlags) (oneshot.MCPOptions, error) {
	from := p.configOptions(cmd)
	delete(from.Flags, "listen") // it is not where the API listens
	from.Env = slices.DeleteFunc(slices.Clone(from.Env), func(kv string) bool { return strings.HasPrefix(kv, mcpToken+"=") })
	standsFor(from, "executor", "agent.executor", f.executor)
	cfg, warnings, err := p.loadFrom(from)
	if err != nil {
		return oneshot.MCPOptions{}, err
	}
	p.printWarnings(warnings)
	log, err := p.newLogger(f.level)
	if err != nil {
		return oneshot.MCPOptions{}, usageError(cmd, err)
	}
	token, err := p.mcpToken(f.tokenFile)
	if err != nil {
		return oneshot.MCPOptions{}, err
	}
	if f.kubeconfig != "" {
		if _, err := os.Stat(f.kubeconfig); err != nil {
			return oneshot.MCPOptions{}, unreadable("--kubeconfig", f.kubeconfig, err)
		}
	}
	var write *oneshot.WritePolicy
	if f.write {
		write = &f.policy
	}
	return oneshot.MCPOptions{
		Write: write, WriteRecord: f.record,
		Config: cfg, Logger: log, Version: buildVersion().Version, Kubeconfig: f.kubeconfig, Context: f.context, Executor: f.executor,
		Records: records{p, cmd}, Environ: p.environ, Token: token, Evidence: f.evidence,
	}, nil
}

// mcpToken reads the bearer token, "" when none is set.
func (p *program) mcpToken(file string) (string, error) {
	token, from := p.envVariable(mcpToken), mcpToken
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return "", unreadable("--token-file", file, err)
		}
		token, from = strings.TrimSpace(string(raw)), "--token-file "+file
		if token == "" {
			return "", nightcrier.Errorf(nightcrier.Invalid, "%s is empty", from)
		}
	}
	if token != "" && len(token) < minToken {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%s: the token is shorter than %d bytes; make one with `openssl rand -hex 32`", from, minToken)
	}
	return token, nil
}

// records asks the server, or the store that no server owns. It is looked for at
// each question: it may come and go while MCP clients are served.
type records struct {
	p   *program
	cmd *cobra.Command
}

func (r records) askServer(ctx context.Context, do func(*client.Client) error) error {
	quiet := *r.p
	quiet.stderr = io.Discard
	c, end, err := quiet.connectClient(ctx, r.cmd)
	if err != nil {
		return err
	}
	return errors.Join(do(c), end())
}

// Report implements the records of an MCP server.
func (r records) Report(ctx context.Context, id string, markdown bool) (body []byte, err error) {
	format := "json"
	if markdown {
		format = "markdown"
	}
	err = r.askServer(ctx, func(c *client.Client) error {
		body, err = c.Report(ctx, id, format)
		return err
	})
	return body, err
}

// Search implements the records of an MCP server.
func (r records) Search(ctx context.Context, status, cluster string, since time.Time, limit int) (found []nightcrier.Incident, err error) {
	err = r.askServer(ctx, func(c *client.Client) error {
		page, err := c.Incidents(ctx, client.IncidentQuery{Status: status, Cluster: cluster, Since: since, Limit: limit})
		found = page.Incidents
		return err
	})
	return found, err
}

// asCloser is in as something that can be closed: a file is, so that a stop does not
// wait for its next line.
func asCloser(in io.Reader) io.ReadCloser {
	if c, ok := in.(io.ReadCloser); ok {
		return c
	}
	return io.NopCloser(in)
}

// writeCloser leaves the closing of stdout to the process.
type writeCloser struct{ io.Writer }

// Close implements io.Closer.
func (writeCloser) Close() error { return nil }

func (p *program) toolsCommand() *cobra.Command {
	return groupCommand("tools", "Show the tools that MCP servers offer to agents", p.toolsListCommand(), p.toolsDiffCommand(), p.toolsAcceptCommand())
}

func (p *program) toolsDiffCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "diff [SERVER]", Short: "Show what changed in tools since they were accepted", Args: checkArgs(cobra.MaximumNArgs(1)),
		Long: `Compares the tools of the MCP servers in tool_servers with what they were when an agent
first used them, or when they were last accepted. Until a change is accepted, agents do not
get the tool. What a server says is shown as it is, and all that differs: it is data, not advice.
The command that is shown with it accepts this, and nothing that the server says later.`}
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.runToolsDiff(cmd, args, false, "") }
	return cmd
}

func (p *program) toolsAcceptCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "accept SERVER", Short: "Accept what changed in the tools of a server", Args: checkArgs(oneArg("SERVER", "which server? Take its name from `nightcrier tools list`")),
		Long: `Accepts what ` + "`nightcrier tools diff`" + ` has shown, by its digest, and nothing that the server says
meanwhile: agents get these tools from their next run on. Without --digest it shows what there is to
accept, with the command that does, and accepts nothing (exit code 6).`}
	digest := ""
	cmd.Flags().StringVar(&digest, "digest", "", "digest that `nightcrier tools diff` has shown")
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.runToolsDiff(cmd, args, true, digest) }
	return cmd
}

func (p *program) runToolsDiff(cmd *cobra.Command, args []string, accept bool, digest string) (err error) {
	if digest == "" && cmd.Flags().Changed("digest") {
		return usageError(cmd, fmt.Errorf("--digest is empty: write what `nightcrier tools diff` has shown, or leave it out"))
	}
	cfg, err := p.loadConfig(cmd)
	if err != nil {
		return err
	}
	diff, err := oneshot.DiffTools(cmd.Context(), cfg, strings.Join(args, ""), accept, digest)
	if err != nil {
		return err
	}
	changes := diff.Changes
	if accept && digest == "" && len(changes) > 0 {
		defer func() { err = cmp.Or(err, errFound) }()
	}
	if p.format == "json" {
		return p.printJSON(diff)
	}
	for i, c := range changes {
		fmt.Fprintf(p.stdout, "%s %s %s\n", c.Server, text.CutLine(text.MarkHidden(c.Tool), 128), c.How)
		was, is := whatDiffers(string(c.Was), string(c.Is))
		for _, side := range []string{"- " + was, "+ " + is} {
			if len(side) > 2 {
				fmt.Fprintf(p.stdout, "  %s\n", text.EscapeJSON(side)) // what is hidden shall differ, too
			}
		}
		if digest == "" && (i == len(changes)-1 || changes[i+1].Server != c.Server) {
			fmt.Fprintf(p.stdout, "nightcrier tools accept %s --digest %s\n", c.Server, diff.Digests[c.Server])
		}
	}
	switch {
	case diff.Accepted:
		p.printMessage("The tools of %s are accepted as they are shown here.", args[0])
	case accept && len(changes) > 0:
		p.printMessage("Nothing is accepted yet: the last line accepts what is shown here.")
	case len(cfg.ToolServers) == 0:
		p.printMessage("tool_servers names no server.")
	case len(changes) == 0:
		p.printMessage("Nothing has changed.")
	}
	return nil
}

// aroundChange is how much of what two texts have in common is shown before and behind where they
// differ, in bytes.
const aroundChange = 200

// whatDiffers leaves out of two texts what they begin and end with alike, and nothing of the rest:
// a change is seen wherever it stands.
func whatDiffers(was, is string) (string, string) {
	if was == "" || is == "" {
		return was, is
	}
	short := min(len(was), len(is))
	head, tail := 0, 0
	for head < short && was[head] == is[head] {
		head++
	}
	for tail < short-head && was[len(was)-1-tail] == is[len(is)-1-tail] {
		tail++
	}
	cut := func(s string) string {
		from, to := max(0, head-aroundChange), min(len(s), len(s)-tail+aroundChange)
		for from > 0 && !utf8.RuneStart(s[from]) {
			from--
		}
		for to < len(s) && !utf8.RuneStart(s[to]) {
			to++
		}
		shown := s[from:to]
		if from > 0 {
			shown = "… " + shown
		}
		if to < len(s) {
			shown += " …"
		}
		return shown
	}
	return cut(was), cut(is)
}

func (p *program) toolsListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the tools of the MCP servers in tool_servers", Args: checkArgs(noArgs),
		Long: `Asks every MCP server in tool_servers for its tools, and shows what each tool says of
itself (read-only, writes, destructive), whether agents get it, and if not, why. When a
server cannot be asked, the tools of the others are shown and the command fails.`}
	p.formatFlag(cmd, "text", "json")
	fewConfigFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.loadConfig(cmd)
		if err != nil {
			return err
		}
		all := oneshot.ListTools(cmd.Context(), cfg)
		if p.format == "json" {
			err = p.printJSON(map[string]any{"servers": all})
		} else {
			p.printTools(all)
		}
		for _, s := range all {
			if s.Error != "" && err == nil {
				err = nightcrier.Errorf(nightcrier.Unreachable, "%s", s.Error)
			}
		}
		return err
	}
	return cmd
}

func (p *program) printTools(all []mcp.Offered) {
	t := table{heading: []string{"SERVER", "TOOL", "HINTS", "AGENTS GET IT AS"}}
	for _, s := range all {
		for _, o := range s.Tools {
			as := cell{o.ShownAs, green}
			if !o.Offered {
				as = cell{"no: " + o.Why, dim}
			}
			t.addRow(plainCell(s.Server), plainCell(o.Tool), plainCell(strings.Join(o.Hints, ", ")), as)
		}
	}
	switch {
	case len(all) == 0:
		p.printMessage("tool_servers names no server.")
	case len(t.rows) > 0:
		p.printTable(t)
	case !slices.ContainsFunc(all, func(s mcp.Offered) bool { return s.Error != "" }): // which is told
		p.printMessage("No server offers a tool.")
	}
	for _, s := range all {
		for _, note := range s.Notes {
			p.printMessage("%s", text.DropHidden(note))
		}
	}
}
