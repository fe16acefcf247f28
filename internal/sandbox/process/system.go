package process

// SystemFiles lists what programs need to run at all: the system's programs
// and libraries, and the few files of /etc that libraries read. It holds no
// secret: neither /etc itself is in it nor /usr/local, where a machine has what its owner
// put there. What may be read of /proc is the sandbox's to say.
func SystemFiles() []string {
	return []string{
		"/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libexec", "/usr/share",
		"/bin", "/sbin", "/lib", "/lib32", "/lib64",
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies",
		"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts", "/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf",
		"/etc/services", "/etc/protocols", "/etc/localtime", "/etc/timezone", "/etc/os-release", "/etc/mime.types",
	}
}

// Devices lists the devices that runtimes open. /dev/zero is not among them: mapped, it is
// memory that stays when the process lets go of it. /dev/full has zeros too.
func Devices() []string {
	return []string{"/dev/null", "/dev/full", "/dev/urandom", "/dev/random", "/dev/tty"}
}
