package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/agent/skill"
	"nightcrier.dev/nightcrier/internal/run/pipeline"
	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/triage/runbook"
)

// Skills says where skills come from and how much is preloaded.
type Skills struct {
	// Sources are searched before CacheDir, in their order.
	Sources []skill.Source
	// FetchedDir keeps the commits of those that are repositories: skills/ in the
	// workspace root.
	FetchedDir string
	// CacheDir holds skills that replace the embedded ones of the same name.
	CacheDir string
	// Include are skills that are installed beside the troubleshooter.
	Include              []string
	DisableTriagePreload bool
	// TriageScript is an executable whose output is added to the first diagnosis;
	// empty means the one that a source or CacheDir brings along, if any.
	TriageScript string
}

func skillKeys() []key {
	return []key{
		{path: "skills.sources", typ: sourcesType(),
			doc:   "where skills are looked up, in order of precedence: each `{path: DIR}` or `{git: URL, commit: ID, dir: DIR}`, in one line `DIR` or `URL#COMMIT:DIR`. They come before `cache_dir`; repositories are fetched by `nightcrier skills update` only",
			field: func(c *Config, _ *Cluster) any { return &c.Skills.Sources }},
		{path: "skills.cache_dir", typ: filePath(),
			doc:   "directory of skills that replace the embedded ones of the same name; passed to scripts as SKILLS_DIR",
			also:  []spelling{envSpelling("SKILLS_CACHE_DIR"), envSpelling("SKILLS_DIR"), envSpelling("AGENT_RUNTIME_SKILLS_SOURCE"), fileSpelling("agent_runtime.skills_source")},
			field: func(c *Config, _ *Cluster) any { return &c.Skills.CacheDir }},
		{path: "skills.include", typ: skillNames(),
			doc:   "names of skills that agents get, and are told of, besides k8s-troubleshooter",
			field: func(c *Config, _ *Cluster) any { return &c.Skills.Include }},
		{path: "skills.disable_triage_preload", typ: booleanType(), def: "false",
			doc:   "leave the first diagnosis out of the prompt; the agent finds it in a file",
			also:  []spelling{envSpelling("SKILLS_DISABLE_TRIAGE_PRELOAD"), envSpelling("DISABLE_TRIAGE_PRELOAD")},
			field: func(c *Config, _ *Cluster) any { return &c.Skills.DisableTriagePreload }},
		{path: "skills.triage_script", typ: filePath(),
			doc:   "executable that looks at the cluster before an agent does; unset means `scripts/incident_triage.sh` of a skill in a source or `cache_dir`, where there is one",
			field: func(c *Config, _ *Cluster) any { return &c.Skills.TriageScript }},
	}
}

// maxSources and maxIncluded bound the lists: each source is looked through at the
// start, and each skill is copied for each incident.
const (
	maxSources  = 20
	maxIncluded = 10
)

// sourcesType is a list of places of skills.
func sourcesType() valueType {
	t := listType()
	properties := map[string]any{}
	for _, name := range sourceFields {
		properties[name] = ofType("string")
	}
	t.schema = map[string]any{"type": "array", "maxItems": maxSources, "items": map[string]any{"anyOf": []any{
		ofType("string"), map[string]any{"type": "object", "additionalProperties": false, "properties": properties},
	}}}
	t.entry = sourceWord
	t.parse = func(words []string) (any, error) {
		if len(words) > maxSources {
			return nil, fmt.Errorf("names more than %d places", maxSources)
		}
		var all []skill.Source
		for i, w := range words {
			if err := checkText(w); err != nil {
				return nil, err
			}
			s, err := skill.ParseSource(w)
			if err != nil {
				return nil, fmt.Errorf("place %d %w", i+1, err)
			}
			if slices.Contains(all, s) {
				return nil, fmt.Errorf("names %s twice: keep one", quoteValue(w))
			}
			all = append(all, s)
		}
		return all, nil
	}
	return t
}

// sourceFields are what an entry may say.
var sourceFields = []string{"path", "git", "commit", "dir"}

func sourceWord(pairs map[string]string) (string, error) {
	for name := range pairs {
		if !slices.Contains(sourceFields, name) {
			return "", fmt.Errorf("%s is nothing that a place can say%s: known are %s", quoteValue(name), texts.SuggestName(": did you mean %s?", name, sourceFields), texts.JoinWords(sourceFields, "or"))
		}
	}
	s := skill.Source{Path: pairs["path"], Git: pairs["git"], Commit: pairs["commit"], Dir: pairs["dir"]}
	if err := s.Check(); err != nil {
		return "", fmt.Errorf("one of its places: %w", err)
	}
	return s.String(), nil
}

// skillNames is a list of names of skills, each once.
func skillNames() valueType {
	t := listType()
	t.schema = map[string]any{"type": "array", "uniqueItems": true, "maxItems": maxIncluded, "items": ofType("string")}
	t.parse = func(words []string) (any, error) {
		if len(words) > maxIncluded {
			return nil, fmt.Errorf("names more than %d skills", maxIncluded)
		}
		var names []string
		for _, w := range words {
			if err := skill.CheckName(w); err != nil {
				return nil, err
			}
			if w == skill.Troubleshooter || slices.Contains(names, w) {
				return nil, fmt.Errorf("names %s, which is there already: leave it out", w)
			}
			names = append(names, w)
		}
		return names, nil
	}
	return t
}

// Options are what skills are found with.
func (s Skills) Options() skill.Options {
	return skill.Options{Sources: s.Sources, CacheDir: s.CacheDir, Fetched: skill.Store{Dir: s.FetchedDir}}
}

// checkSkills makes the paths of sources absolute.
func (l *loader) checkSkills(cfg *Config) {
	cfg.Skills.FetchedDir = filepath.Join(cfg.WorkspaceRoot, "skills")
	for i := range cfg.Skills.Sources {
		if s := &cfg.Skills.Sources[i]; s.Path != "" {
			s.Path = l.absolutePath(s.Path)
			if !isDirectory(s.Path) {
				l.problemAt(cfg, "skills.sources", fmt.Errorf("%s is not a directory: correct the path, or take it out", s.Path))
			}
		}
	}
}

// Runbooks says where what people wrote for certain cases is found.
type Runbooks struct {
	// Dir holds Markdown files that say what they are for; empty means none.
	Dir string
	// AllowedHosts are where pages that alerts name may be fetched from.
	AllowedHosts []string
	// Timeout bounds the fetching of one.
	Timeout time.Duration
}

func runbookKeys() []key {
	return []key{
		{path: "runbooks.dir", typ: filePath(),
			doc:   "directory of runbooks: Markdown files whose front matter says which cases they are for",
			field: func(c *Config, _ *Cluster) any { return &c.Runbooks.Dir }},
		{path: "runbooks.allowed_hosts", typ: hostsType(),
			doc:   "hosts from which the page at an alert's `runbook_url` may be fetched: names, `*.domain`, addresses, each with `:port` or without, and networks that the names may resolve into",
			field: func(c *Config, _ *Cluster) any { return &c.Runbooks.AllowedHosts }},
		{path: "runbooks.timeout", typ: durationType(100*time.Millisecond, time.Minute), def: "5s",
			doc:   "how long fetching the page of a `runbook_url` may take",
			field: func(c *Config, _ *Cluster) any { return &c.Runbooks.Timeout }},
	}
}

// Knowledge says where what is known of services and of stages of work is found.
type Knowledge struct {
	// Repositories are directories with services below .agentura/services.
	Repositories []string
	// SkillLibrary has the skills of the stages of work; empty means none.
	SkillLibrary string
	// Describe has a model say in words what an index shows.
	Describe bool
}

func serviceKeys() []key {
	return []key{
		{path: "knowledge.repositories", typ: listType(),
			doc:   "directories of repositories that `nightcrier index` was run on: what is known of a service is given to skills whose input names it, and to incidents of its workloads",
			field: func(c *Config, _ *Cluster) any { return &c.Knowledge.Repositories }},
		{path: "knowledge.skill_library", typ: filePath(),
			doc:   "directory with `sdlc.yaml`, which says what expertise a skill is given for its stage of work; one that is missing gives none",
			also:  []spelling{envSpelling("SKILL_LIBRARY_DIR"), envSpelling("AI_VELOCITY_DIR")},
			field: func(c *Config, _ *Cluster) any { return &c.Knowledge.SkillLibrary }},
		{path: "knowledge.describe", typ: booleanType(), def: "false",
			doc:   "whether `nightcrier index` has a model say in words what it found, which costs what the model costs",
			field: func(c *Config, _ *Cluster) any { return &c.Knowledge.Describe }},
	}
}

func pipelineKeys() []key {
	return []key{
		{path: "pipelines_dir", typ: filePath(),
			doc:   "directory of pipelines, a YAML file each; one called k8s-incident-triage replaces the embedded one. `docs/pipelines.md` says what a file may hold",
			also:  []spelling{envSpelling("PIPELINES_DIR")},
			field: func(c *Config, _ *Cluster) any { return &c.PipelinesDir }},
		{path: "history_dir", typ: filePath(),
			doc:   "directory of the JSON files of the older platform; a server lists the executions in its `episodic_memory.json` that are not older than `retention` among its own, and leaves the file as it is",
			also:  []spelling{envSpelling("AGENTURA_KNOWLEDGE_DIR")},
			field: func(c *Config, _ *Cluster) any { return &c.HistoryDir }},
	}
}

// hostsType is a list of what runbooks may be fetched from.
func hostsType() valueType {
	t := listType()
	inner := t.parse
	t.parse = func(words []string) (any, error) {
		for _, w := range words {
			if err := runbook.CheckHost(w); err != nil {
				return nil, err
			}
		}
		return inner(words)
	}
	return t
}

// checkRunbooks tells of files that are never joined to a report.
func (l *loader) checkRunbooks(cfg *Config) {
	const at = "runbooks.dir"
	dir := cfg.Runbooks.Dir
	switch {
	case dir == "":
		return
	case !isDirectory(dir):
		l.addNeed(cfg, at, dir+" is not a directory: no runbooks are found")
		return
	}
	_, problems := runbook.Load(dir)
	for _, err := range problems[:min(len(problems), maxProblems)] {
		l.addNeed(cfg, at, strings.TrimSpace(err.Error()))
	}
}

// checkPipelines tells of files that are left out.
func (l *loader) checkPipelines(cfg *Config) {
	if cfg.PipelinesDir == "" {
		return
	}
	_, problems := pipeline.Load(cfg.PipelinesDir)
	for _, one := range problems[:min(len(problems), maxProblems)] {
		l.addNeed(cfg, "pipelines_dir", one.String())
	}
}

// Names are those of the skills that agents get, the troubleshooter first.
func (s *Skills) Names() []string {
	return append([]string{skill.Troubleshooter}, s.Include...)
}

// Find finds them, and the script that the troubleshooter brings along. Its
// errors are Invalid: what was asked for is not there.
func (s *Skills) Find() (all []*skill.Skill, script string, err error) {
	library, err := skill.Open(s.Options())
	if err != nil {
		return nil, "", nightcrier.Errorf(nightcrier.Invalid, "%w", err)
	}
	for i, name := range s.Names() {
		one, err := library.Find(name)
		switch {
		case err != nil && i == 0:
			return nil, "", err
		case err != nil:
			return nil, "", nightcrier.Errorf(nightcrier.Invalid, "skills.include: %w", err)
		}
		all = append(all, one)
	}
	return all, existingPath(cmp.Or(s.TriageScript, library.TriageScript(skill.Troubleshooter))), nil
}

// ShownDir is CacheDir as a sandbox shows it, "" where there is none.
func (s *Skills) ShownDir() string { return existingPath(s.CacheDir) }

// existingPath returns the path that path really is, "" when it is not there: a
// sandbox can show neither a link to elsewhere nor nothing.
func existingPath(path string) string {
	if path == "" {
		return ""
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return real
}
