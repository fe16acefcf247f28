package runbook

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// allowed is where pages may be fetched from.
type allowed struct {
	hosts    []hostPort
	networks []netip.Prefix
}

// hostPort is an allowed host: a name, or the end of names when it begins with a
// dot.
type hostPort struct{ name, port string }

var hostName = regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// CheckHost says why s is none of the forms of an allowed host: a name, *.domain,
// an address, each with :port or without, or a network such as 10.0.0.0/8, which
// names that are allowed may then resolve to.
func CheckHost(s string) error { return new(allowed).addEntry(s) }

func (a *allowed) addEntry(s string) error {
	s = strings.ToLower(s)
	if network, err := netip.ParsePrefix(s); err == nil {
		a.networks = append(a.networks, network.Masked())
		return nil
	}
	host, port := s, "443"
	if h, p, err := net.SplitHostPort(s); err == nil && !strings.Contains(s, "/") {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%q: %q is not a port", s, p)
		}
		host, port = h, p
	}
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		a.networks = append(a.networks, netip.PrefixFrom(ip, ip.BitLen()))
		a.hosts = append(a.hosts, hostPort{ip.String(), port})
		return nil
	}
	if !hostName.MatchString(host) || host == "*" {
		return fmt.Errorf("%q is not a host such as runbooks.example.com, *.example.com, 10.1.2.3 or 10.0.0.0/8", s)
	}
	a.hosts = append(a.hosts, hostPort{strings.TrimPrefix(host, "*"), port})
	return nil
}

// allowsHost reports whether pages of a host may be fetched, by its name.
func (a *allowed) allowsHost(name, port string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if ip, err := netip.ParseAddr(name); err == nil {
		name = ip.Unmap().String()
	}
	return slices.ContainsFunc(a.hosts, func(h hostPort) bool {
		if strings.HasPrefix(h.name, ".") {
			return strings.HasSuffix(name, h.name) && port == h.port
		}
		return name == h.name && port == h.port
	})
}

// allowsAddress reports whether an address may be connected to: a public one, or one
// that is allowed by number.
func (a *allowed) allowsAddress(ip netip.Addr) bool {
	return isPublic(ip) || slices.ContainsFunc(a.networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}

// inner are networks that are not the internet, beside those that package netip
// knows: shared and benchmark networks, and those that carry an IPv4 address
// within an IPv6 one.
var inner = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("fec0::/10"),
}

func isPublic(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && ip.Zone() == "" &&
		!slices.ContainsFunc(inner, func(n netip.Prefix) bool { return n.Contains(ip) })
}
