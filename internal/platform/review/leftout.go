package review

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// Why a file is left out. People are told of each.
const (
	outBinary    = "binary"
	outSubmodule = "a submodule"
	outGenerated = "generated, says .gitattributes of the base"
	outVendored  = "vendored"
	outLock      = "a lock file"
	outMinified  = "minified"
	outNoPatch   = "no line of it is in the diff: it is empty, too large, or only its mode is another"
	outNoLines   = "only its name is another"
	outPath      = "left out by the configuration"
	outTooMuch   = "no room for it beside the others"
	outEarlier   = "reviewed before, and not changed since"
)

// lockFiles are what package managers write, and nobody reads.
var lockFiles = strings.Fields(`go.sum package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb Cargo.lock Gemfile.lock
	poetry.lock uv.lock Pipfile.lock pdm.lock composer.lock mix.lock pubspec.lock Podfile.lock Package.resolved packages.lock.json
	gradle.lockfile flake.lock Chart.lock .terraform.lock.hcl deno.lock go.work.sum`)

// vendoredDirs are what is copied from elsewhere.
var vendoredDirs = []string{"vendor", "node_modules", "third_party", "bower_components"}

// minified are files that a program wrote for another one.
var minified = regexp.MustCompile(`(?i)[.-]min\.(?:js|css|mjs)$|\.(?:js|css)\.map$`)

// attributes are the rules of a .gitattributes that say what is not reviewed. The base's own counts: a pull
// request that could write it would choose what is looked at.
type attributes []attribute

type attribute struct {
	pattern string
	out     string // why it is left out, "" where the rule takes that back
}

// readAttributes reads what a .gitattributes says of generated and vendored files.
func readAttributes(data string) (a attributes) {
	for line := range strings.Lines(data) {
		words := strings.Fields(line)
		if len(words) < 2 || strings.HasPrefix(words[0], "#") || len(a) == 1000 {
			continue
		}
		for _, w := range words[1:] {
			switch w {
			case "linguist-generated", "linguist-generated=true":
				a = append(a, attribute{words[0], outGenerated})
			case "linguist-vendored", "linguist-vendored=true":
				a = append(a, attribute{words[0], outVendored})
			case "-linguist-generated", "linguist-generated=false", "-linguist-vendored", "linguist-vendored=false":
				a = append(a, attribute{words[0], ""})
			}
		}
	}
	return a
}

// find says why a file is left out; told says whether a rule is about it. The last one counts.
func (a attributes) find(name string) (why string, told bool) {
	for _, r := range slices.Backward(a) {
		if matchPath(r.pattern, name) {
			return r.out, true
		}
	}
	return "", false
}

// matchPath matches a path as .gitattributes and .gitignore do: a pattern without a slash is for a name in
// any directory, ** is any number of directories, and a directory is all below it.
func matchPath(pattern, name string) bool {
	pattern = strings.TrimSuffix(pattern, "/")
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	return matchParts(strings.Split(strings.TrimPrefix(pattern, "/"), "/"), strings.Split(name, "/"), new(int))
}

// matchParts matches directory by directory, and gives up where that takes too many tries.
func matchParts(pattern, name []string, tries *int) bool {
	if *tries++; *tries > 10_000 {
		return false
	}
	switch {
	case len(pattern) == 0:
		return true // what is below a directory that is meant
	case pattern[0] == "**":
		return matchParts(pattern[1:], name, tries) || len(name) > 0 && matchParts(pattern, name[1:], tries)
	case len(name) == 0:
		return false
	}
	hit, err := path.Match(pattern[0], name[0])
	return err == nil && hit && matchParts(pattern[1:], name[1:], tries)
}

// whyLeftOut says why a file is not shown to agents, "" where it is. What the base and the
// configuration say counts before what its name lets guess.
func (f *File) whyLeftOut(base attributes, skip []string) string {
	switch {
	case f.Binary:
		return outBinary
	case f.Submodule:
		return outSubmodule
	case slices.ContainsFunc(skip, func(pattern string) bool { return matchPath(pattern, f.Path) }):
		return outPath
	}
	if why, told := base.find(f.Path); told && why != "" {
		return why
	} else if !told {
		parts := strings.Split(f.Path, "/")
		switch {
		case slices.Contains(lockFiles, parts[len(parts)-1]):
			return outLock
		case slices.ContainsFunc(parts[:len(parts)-1], func(dir string) bool { return slices.Contains(vendoredDirs, dir) }):
			return outVendored
		case minified.MatchString(f.Path):
			return outMinified
		}
	}
	switch {
	case len(f.Hunks) > 0:
		return ""
	case f.Change == Renamed || f.Change == Copied:
		return outNoLines
	case f.Cut != "":
		return f.Cut
	}
	return outNoPatch
}
