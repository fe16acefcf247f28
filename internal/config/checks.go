package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/guard/model"
)

// The checks here look at one value alone. None of them quotes a value that
// may hold a credential.

var clusterNamePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

func checkClusterName(s string) error {
	if !clusterNamePattern.MatchString(s) {
		return fmt.Errorf("%s is not a cluster name: use up to 63 lower-case letters, digits, '-' and '.', with a letter or digit at both ends", quoteValue(s))
	}
	return nil
}

var namespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func checkNamespace(s string) error {
	if !namespacePattern.MatchString(s) {
		return fmt.Errorf("%s is not a namespace: name each by itself, with lower-case letters, digits and '-'; patterns are not supported", quoteValue(s))
	}
	return nil
}

var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

func checkVariableName(s string) error {
	if !variablePattern.MatchString(s) {
		return errors.New("is not the name of an environment variable: name the variable that holds the key, not the key itself")
	}
	return nil
}

// checkEndpoint accepts an http or https URL without credentials.
func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return errors.New("is not a URL: write http://host:port/path or https://host/path")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("has the scheme %s: only http and https are supported", quoteValue(u.Scheme))
	case u.User != nil:
		return errors.New("contains a user name or password: remove it, and name the variable that holds the key in api_key_env")
	case u.Fragment != "":
		return errors.New("contains a #fragment: remove it")
	}
	return nil
}

func checkModelURL(s string) error {
	if err := checkEndpoint(s); err != nil {
		return err
	}
	if u, err := url.Parse(s); err == nil && model.Signed(u.Hostname()) {
		return errors.New("is that of Bedrock or Vertex, which are not called, because their calls are signed: put a gateway with a key before it")
	}
	if isLocal(s) {
		return nil // without a key there is nothing to be read on the way; with one, checkKey says so
	}
	return checkEncrypted(s, "the model API key")
}

// isLocal reports whether a URL is plain http to this machine, to a private address or
// to a service of the cluster that we run in: there models answer without a key.
func isLocal(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" {
		return false
	}
	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	return isLoopback(host) || err == nil && addr.Unmap().IsPrivate() || strings.HasSuffix(host, ".svc") || strings.HasSuffix(host, ".svc.cluster.local")
}

func checkSlackURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.User != nil || (u.Scheme != "https" && u.Scheme != "http") {
		return errors.New("is not a webhook URL: copy the https:// URL of the incoming webhook")
	}
	return checkEncrypted(s, "the webhook URL")
}

// checkEncrypted wants https unless the host is this machine.
func checkEncrypted(s, what string) error {
	u, err := url.Parse(s)
	if err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return nightcrier.Errorf(nightcrier.Refused, "would send %s unencrypted: use https", what)
	}
	return nil
}

func checkDatabaseURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return errors.New("is not a postgres:// URL: write postgres://user:password@host/database, or leave it empty for SQLite in the workspace root")
	}
	return nil
}

// checkAddress accepts host:port.
func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%s is not an address: write host:port, such as 127.0.0.1:8080", quoteValue(s))
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%s has no port between 0 and 65535", quoteValue(s))
	}
	return nil
}

// checkLoopback refuses an address that other machines reach.
func checkLoopback(s string) error {
	host, _, err := net.SplitHostPort(s)
	if err == nil && !isLoopback(host) {
		return nightcrier.Errorf(nightcrier.Refused,
			"%s is reachable from other machines, and whoever reaches the API may use it: name a loopback address, such as 127.0.0.1:8080, and health_listen for probes and metrics", quoteValue(s))
	}
	return checkAddress(s)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// checkWord accepts a value that is handed to a command as one argument.
func checkWord(s string) error {
	if strings.HasPrefix(s, "-") || strings.ContainsAny(s, " \t'\"`$;|&<>\\") {
		return fmt.Errorf("%s is not a plain name: it may not start with '-' nor hold spaces, quotes or shell characters", quoteValue(s))
	}
	return nil
}

func checkCommand(s string) error {
	if strings.HasPrefix(s, "-") {
		return fmt.Errorf("%s is not the path or name of a command", quoteValue(s))
	}
	return nil
}

func checkAPIKey(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("contains a space or a character outside ASCII: paste the key alone")
	}
	return nil
}

// crowded are directories that belong to the system or to everybody.
var crowded = []string{"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var"}

// checkWorkspaceRoot wants a directory of our own. The path is absolute.
func checkWorkspaceRoot(path, home string) error {
	if slices.Contains(crowded, path) || path == home ||
		strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/sys/") || strings.HasPrefix(path, "/dev/") {
		return fmt.Errorf("%s is not a directory for workspaces alone: name one below it, such as %s/nightcrier", quoteValue(path), strings.TrimSuffix(path, "/"))
	}
	return nil
}
