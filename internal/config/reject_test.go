package config

import (
	"errors"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text/strictyaml"
)

// oneCluster is a file with one cluster of these fields, in its second line.
func oneCluster(fields string) string { return "clusters:\n  - {name: a, " + fields + "}\n" }

// badFiles are files that do not load, each for one reason.
var badFiles = []struct {
	name, yaml string
	want       string // the problem, after the file's name
}{
	{"unknown key", "agents: {}\n", "1: agents: is not a key: did you mean agent?"},
	{"unknown key below", "agent:\n  timeuot: 5m\n", "2: agent.timeuot: is not a key: did you mean agent.timeout?"},
	{"a key of elsewhere", "timeout: 5m", "1: timeout: is not a key here: did you mean agent.timeout?"},
	{"unknown key of a cluster", oneCluster("mcp: {endpiont: x}"), "2: clusters[0].mcp.endpiont: is not a key: did you mean clusters[0].mcp.endpoint?"},
	{"nothing near", "zzzzzzzz: 1", "known here are agent, agent_runtime, approvals, budget"},
	{"key twice", "retention: 1h\nretention: 2h", "2: retention: is given a second time"},
	{"no unit", "dedupe_window: 300", `1: dedupe_window: "300" has no unit: write 300s, 300m or 300h`},
	{"no duration", "dedupe_window: soon", "is not a duration such as"},
	{"negative duration", "dedupe_window: -5m", "is not between 0 and 168h"},
	{"endless agent", "agent: {timeout: 25h}", "is not between 1s and 24h"},
	{"no time at all", "agent: {timeout: 0s}", "is not between 1s and 24h"},
	{"a host with a scheme", "runbooks: {allowed_hosts: ['https://x']}", `1: runbooks.allowed_hosts: "https://x" is not a host such as`},
	{"every host", "runbooks: {allowed_hosts: ['*']}", `is not a host such as`},
	{"zero agents", "max_concurrent_agents: 0", "is not between 1 and 1000"},
	{"overflow", "queue: {max: 99999999999999999999}", "is not between 1 and 1000000"},
	{"half an agent", "max_concurrent_agents: 1.5", "is not a whole number"},
	{"size overflow", "workspace_max_bytes: 9999999999999GiB", "is not between 1MiB and 1TiB"},
	{"no severity", "severity_threshold: bad", "is not one of info, warning, error, critical"},
	{"half a name", "agent: {executor: claude}", "did you mean claude-code?"},
	{"no level", "log: {level: inf}", "did you mean info?"},
	{"scalar for mapping", "agent: claude", "1: agent: is a single value: write keys below it: allowed_tools"},
	{"list for scalar", "retention: [1h]", "is a list: expected"},
	{"prices as a mapping", "agent: {prices: {gpt-5: 3}}", `is a mapping: expected list such as ["gpt-5=1.25/10/0.125"]`},
	{"prices as mappings", "agent: {prices: [{model: gpt-5, input: 3}]}", `holds a mapping: expected a list of texts such as ["gpt-5=`},
	{"mapping for list", "clusters: {name: a}", "is a mapping: write a list"},
	{"mapping in a list", "agent: {allowed_tools: [{a: b}]}", "holds a mapping"},
	{"scalar document", "hello", "is a single value"},
	{"list document", "- a\n- b\n", "is a list"},
	{"two documents", "retention: 1h\n---\nretention: 2h\n", "3: a second document begins here"},
	{"syntax", "agent:\n\t timeout: 5m", "2: is not valid YAML"},
	{"open bracket", "clusters: [", "1: is not valid YAML"},
	{"open quote", "log:\n  level: \"info\nretention: 1h\n\n", "2: is not valid YAML: found unexpected end"},
	{"open brace", "log: {level: info\nretention: 1h\n", "2: is not valid YAML: did not find expected ',' or '}' (while parsing a flow mapping from line 1 on)"},
	{"dedented", "clusters:\n  - name: a\n   watch: true\n", "3: is not valid YAML"},
	{"alias", "storm: {quiet: 5m}\nqueue: *a\n", "anchors, aliases"},
	{"anchor", "storm: &a {quiet: 5m}\n", "anchors, aliases"},
	{"merge key", "storm:\n  <<: {quiet: 5m}\n", "anchors, aliases"},
	{"tag", "retention: !!str 5m", "anchors, aliases"},
	{"cluster without a name", "clusters: [{mcp: {endpoint: http://h/}}]", "1: clusters[0].name: is missing"},
	{"the same name", "clusters:\n  - name: a\n  - name: a\n", "3: clusters[1].name: a is also the name of clusters[0]"},
	{"a name to break out of a path", "clusters: [{name: ../../etc}]", "is not a cluster name"},
	{"a name with a label in it", `clusters: [{name: 'a"} 1'}]`, "is not a cluster name"},
	{"a long name", "clusters: [{name: " + strings.Repeat("a", 64) + "}]", "is not a cluster name"},
	{"a line break", `agent: {model: "a\nb"}`, "contains a line break"},
	{"no URL", oneCluster("mcp: {endpoint: localhost}"), "is not a URL"},
	{"file URL", oneCluster("mcp: {endpoint: 'file:///etc/passwd'}"), "is not a URL"},
	{"other scheme", oneCluster("mcp: {endpoint: 'ftp://h/'}"), `has the scheme "ftp"`},
	{"no mode", oneCluster("mcp: {mode: fault}"), "did you mean faults?"},
	{"label without a name", oneCluster("labels: '=x'"), "is not of the form name=value"},
	{"watch without a credential", oneCluster("watch: true"), "clusters[0].watch: needs a credential to read the cluster with: set clusters[0].kubeconfig"},
	{"a pattern for namespaces", oneCluster("namespaces: ['shop-*']"), `clusters[0].namespaces: "shop-*" is not a namespace`},
	{"a namespace to break out of a path", oneCluster("namespaces: [../nodes]"), "is not a namespace"},
	{"no namespace", oneCluster("namespaces: [shop, '']"), "is not a namespace"},
	{"a namespace twice", oneCluster("namespaces: [shop, bank, shop]"), "names shop twice"},
	{"too many namespaces", oneCluster("namespaces: [" + strings.Repeat("a, ", 50) + "a]"), "names more than 50 namespaces"},
	{"docker", "sandbox: {backend: docker}", "docker is not available in this version: use process"},
	{"a flag as model", "agent: {model: --dangerously-skip-permissions}", "is not a plain name"},
	{"a command line as model", "agent: {model: 'sonnet; rm -rf /'}", "is not a plain name"},
	{"a flag as command", "agent: {command: -c}", "is not the path or name of a command"},
	{"no address", "listen: 8080", "is not an address"},
	{"no port", "health_listen: 0.0.0.0:http", "has no port"},
	{"one address twice", "listen: 127.0.0.1:8080\nhealth_listen: 127.0.0.1:8080", "is the same address as listen"},
	{"root as workspace root", "workspace_root: /", "is not a directory for workspaces alone"},
	{"root in disguise", "workspace_root: /tmp/..", "is not a directory for workspaces alone"},
	{"kernel as workspace root", "workspace_root: /proc/self", "is not a directory for workspaces alone"},
	{"home as workspace root", "workspace_root: /home/x", "is not a directory for workspaces alone"},
	{"missing script", "agent: {script_path: /no/such/script}", "/no/such/script cannot be run"},
	{"directory as script", "agent: {script_path: /etc}", "is not a regular file"},
	{"missing prompt", "agent: {system_prompt_file: /no/such}", "cannot be read"},
	{"endless prompt", "agent: {system_prompt_file: /dev/zero}", "is not a regular file"},
}

func TestBadFiles(t *testing.T) {
	for _, tt := range badFiles {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := load(t, tt.yaml, []string{"HOME=/home/x"}, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want %q", err, tt.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one problem: %v", err)
			}
			if nightcrier.CodeOf(err) != nightcrier.Invalid {
				t.Errorf("code %s", nightcrier.CodeOf(err))
			}
			if !strings.Contains(err.Error(), "nc.yaml") && !strings.Contains(tt.name, "root") {
				t.Errorf("%q does not name the file", err)
			}
		})
	}
}

func TestRefusedByPolicy(t *testing.T) {
	tests := []struct {
		name, yaml, env string
		want            string
	}{
		{"all interfaces", "listen: 0.0.0.0:8080", "", "is reachable from other machines"},
		{"no host", "listen: ':8080'", "", "is reachable from other machines"},
		{"a name", "listen: nightcrier.example:8080", "", "is reachable from other machines"},
		{"all IPv6 interfaces", "listen: '[::]:8080'", "", "is reachable from other machines"},
		{"key in the clear", "", "ANTHROPIC_BASE_URL=http://proxy.example/", "unencrypted"},
		{"webhook in the clear", "", "SLACK_WEBHOOK_URL=http://hooks.example/x", "unencrypted"},
		{"authentication that is not there", "", "AUTH_REQUIRED=true", "authentication is not available"},
		{"network of the host", "", "PTC_HOST_NETWORK=1", "never share the network"},
		{"beside a plain mistake", "retention: x\nlisten: 0.0.0.0:1", "", "is reachable from other machines"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := load(t, tt.yaml, []string{tt.env}, nil)
			if nightcrier.CodeOf(err) != nightcrier.Refused || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	for _, fine := range []string{"listen: 127.0.0.1:0", "listen: localhost:1", "listen: '[::1]:1'", "listen: '[::ffff:127.0.0.1]:1'", "listen: none"} {
		mustLoad(t, fine, "AUTH_REQUIRED=false", "ANTHROPIC_BASE_URL=http://127.0.0.1:4000")
	}
}

func TestBadFilesOnDisk(t *testing.T) {
	big := write(t, "big.yaml", strings.Repeat("# filler\n", strictyaml.MaxBytes/8))
	deep := write(t, "deep.yaml", strings.Repeat("[", 100000))
	dashes := write(t, "dashes.yaml", strings.Repeat("- ", 400000))
	dir := t.TempDir()
	for path, want := range map[string]string{
		"/no/such/nc.yaml": "does not exist: create it",
		dir:                "is not a regular file",
		"/dev/zero":        "is not a regular file",
		big:                "is larger than",
		deep:               "nests brackets",
		dashes:             "nests brackets or dashes",
	} {
		_, _, err := Load(Options{File: path})
		if err == nil || !strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestBadFlagsAndVariables(t *testing.T) {
	tests := []struct {
		name  string
		env   []string
		flags map[string]string
		want  string
	}{
		{"mistyped variable", []string{"NIGHTCRIER_LOG_LEVLE=info"}, nil, "env NIGHTCRIER_LOG_LEVLE: is not a variable of nightcrier: did you mean NIGHTCRIER_LOG_LEVEL?"},
		{"mistyped older variable", []string{"AGENT_RUNTIME_COMAND=claude"}, nil, "did you mean AGENT_RUNTIME_COMMAND?"},
		{"unknown flag", nil, map[string]string{"agent-timeoot": "5m"}, "flag --agent-timeoot: is not a flag: did you mean agent-timeout?"},
		{"bad flag", nil, map[string]string{"log-level": "loud"}, "flag --log-level: \"loud\" is not one of"},
		{"bad variable", []string{"AGENT_TIMEOUT=soon"}, nil, "env AGENT_TIMEOUT: \"soon\" is not a duration"},
		{"no seconds", []string{"AGENT_TIMEOUT=NaN"}, nil, "is not a duration"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := load(t, "", tt.env, tt.flags)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestStrangersInTheEnvironment(t *testing.T) {
	quiet := []string{
		"NIGHTCRIER_SERVICE_HOST=10.0.0.1", "NIGHTCRIER_PORT=tcp://10.0.0.1:80", "NIGHTCRIER_PORT_80_TCP_ADDR=10.0.0.1",
		"NIGHTCRIER_POSTGRES_SERVICE_PORT_SQL=5432", "OPENAI_API_KEY=k", "GITHUB_TOKEN=t", "HOST=h", "PORT=1", "PATH=/bin", "not a pair",
	}
	mustQuiet := func(env ...string) {
		t.Helper()
		if _, warnings := mustLoad(t, "", env...); len(warnings) > 0 {
			t.Errorf("%v: %v", env, warnings)
		}
	}
	mustQuiet(quiet...)
	_, warnings := mustLoad(t, "", "NIGHTCRIER_SOMETHING_ELSE=1", "DB_PASSWORD=hunter2", "AGENTURA_API_KEY=hunter2", "MCP_CALL_TIMEOUT=hunter2")
	if len(warnings) != 3 {
		t.Fatalf("want one for the stray, one for the retired, one for the unbuilt: %v", warnings)
	}
	for i, want := range []string{"NIGHTCRIER_SOMETHING_ELSE", "AGENTURA_API_KEY, DB_PASSWORD", "MCP_CALL_TIMEOUT"} {
		if got := warnings[i].String(); !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("warning %q, want %q", got, want)
		}
	}
}

func TestAKeyOfAClusterIsNoStranger(t *testing.T) {
	yaml := "clusters: [{name: a, mcp: {endpoint: http://h/, api_key_env: MCP_A_API_KEY}}]"
	cfg, warnings := mustLoad(t, yaml, "MCP_A_API_KEY=k1")
	if cfg.Clusters[0].MCP.APIKey.Reveal() != "k1" || len(warnings) > 0 {
		t.Errorf("%+v, %v", cfg.Clusters[0], warnings)
	}
}

// platformNamesInUse are the variables that the older platform documented.
const platformNamesInUse = `ANTHROPIC_API_KEY OPENROUTER_API_KEY OPENAI_API_KEY OPENROUTER_REFERER SKILLS_DIR AGENTURA_SKILLS_DIR
PIPELINES_DIR AGENCY_DIR AGENTURA_KNOWLEDGE_DIR ARTIFACTS_DIR SKILL_LIBRARY_DIR AI_VELOCITY_DIR WORK_DIR CONFIG_PATH
SANDBOX_BACKEND SANDBOX_IPC_MODE SANDBOX_NAMESPACE SANDBOX_IMAGE SANDBOX_RUNTIME_CLASS SANDBOX_IMAGE_PULL_POLICY POD_READY_TIMEOUT
PTC_WORKER_IMAGE PTC_WORKER_CPU PTC_WORKER_MEMORY PTC_WORKER_TIMEOUT PTC_HOST_NETWORK CLAUDE_CODE_WORKER_IMAGE CLAUDE_CODE_WORKER_CPU
CLAUDE_CODE_WORKER_MEMORY CLAUDE_CODE_WORKER_TIMEOUT MAX_CONTINUATIONS MAX_AGENT_OUTPUT_CHARS DOCKER_HOST EXECUTION_REQUEST
MCP_KUBERNETES_URL MCP_KUBERNETES_API_KEY MCP_GATEWAY_API_KEY OBOT_URL MCP_CALL_TIMEOUT MCP_FETCH_TIMEOUT DATABRICKS_WORKSPACE_URL
DATABRICKS_TOKEN DATABRICKS_WAREHOUSE_ID DATABRICKS_CATALOG DATABRICKS_SCHEMA DATABRICKS_STATEMENT_TIMEOUT NOTION_API_KEY CLICKUP_API_KEY
APPETIZE_API_KEY DATABASE_URL AGENTURA_WORKSPACE_ID AUTH_REQUIRED ADMIN_USER_IDS JWKS_URL JWT_ISSUER OAUTH_STATE_SECRET GMAIL_CLIENT_ID
GMAIL_CLIENT_SECRET GATEWAY_PUBLIC_URL EXECUTOR_URL EXECUTION_MODE SKILL_RUNNER_IMAGE DB_HOST DB_USER DB_PASSWORD DB_NAME WEBHOOK_SECRET
GITHUB_WEBHOOK_SECRET SLACK_OPS_SIGNING_SECRET SLACK_OPS_BOT_TOKEN SLACK_OPS_APP_TOKEN AUTH_ENABLED GITHUB_TOKEN SLACK_BOT_TOKEN
UVICORN_WORKERS HOST PORT SKILL_WATCH_DEBOUNCE_MS AGENTURA_GATEWAY_URL AGENTURA_API_KEY AGENTURA_EXECUTOR_URL API_TARGET
NEXT_PUBLIC_API_URL LANDING_ONLY`

func TestEveryPlatformVariableIsDecided(t *testing.T) {
	spelled := map[string]bool{}
	all := allKeys()
	for i := range all {
		for _, s := range all[i].also {
			spelled[s.name] = true
		}
	}
	for _, name := range strings.Fields(platformNamesInUse) {
		if _, ok := fateOf(platformTable(), name); ok == spelled[name] {
			t.Errorf("%s: in the table %v, a spelling of a key %v: want exactly one", name, ok, spelled[name])
		}
	}
}

func TestExecutionMode(t *testing.T) {
	for mode, want := range map[string]string{"proxy": "", "${EXECUTION_MODE}": "", "docker": "docker is not available", "k9s": "is not one of process"} {
		_, _, err := load(t, "", []string{"EXECUTION_MODE=" + mode, "SANDBOX_BACKEND=process"}, nil)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", mode, err, want)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, _, err := load(t, strings.Repeat("retention: 5m\n", 1000), nil, nil)
	var found Problems
	if !errors.As(err, &found) || len(found) != maxProblems+1 || !strings.HasSuffix(err.Error(), "and 949 more") {
		t.Errorf("%d problems, %v", len(found), err)
	}
}

func TestErrorsUnwrap(t *testing.T) {
	_, _, err := load(t, "retention: x", nil, nil)
	var e *nightcrier.Error
	var p Problems
	if !errors.As(err, &e) || !errors.As(err, &p) {
		t.Errorf("%T does not unwrap", err)
	}
}
