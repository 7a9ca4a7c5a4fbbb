package lab

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Residue lists what a lab that was removed has left: its directory, processes that work in it or have it among their
// arguments, mounts, sockets, network devices and cgroups. There should be nothing.
func (l *Lab) Residue() []string {
	var found []string
	if _, err := os.Stat(l.Dir); err == nil {
		found = append(found, "directory "+l.Dir)
	}
	found = append(found, l.processesLeft()...)
	for file, what := range map[string]string{"/proc/self/mountinfo": "mount", "/proc/net/unix": "socket"} {
		for _, line := range linesWith(file, l.Dir) {
			found = append(found, what+" "+line)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		found = append(found, "network devices can't be listed: "+err.Error())
	}
	for _, link := range links {
		if linkOwner(link.Name) == l.Dir {
			found = append(found, "network device "+link.Name)
		}
	}
	groups, err := l.cgroups()
	if err != nil {
		found = append(found, "cgroups can't be listed: "+err.Error())
	}
	for _, group := range groups {
		found = append(found, "cgroup "+group)
	}
	return found
}

func (l *Lab) processesLeft() []string {
	var found []string
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return []string{"processes can't be listed: " + err.Error()}
	}
	for _, process := range processes {
		if filepath.Base(process) == filepath.Base(selfProcess()) {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join(process, "cmdline"))
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join(process, "cwd"))
		if err != nil {
			continue
		}
		if strings.Contains(string(cmdline), l.Dir) || cwd == l.Dir || strings.HasPrefix(cwd, l.Dir+"/") {
			words := strings.ReplaceAll(strings.TrimRight(string(cmdline), "\x00"), "\x00", " ")
			found = append(found, "process "+filepath.Base(process)+" "+words)
		}
	}
	return found
}

func selfProcess() string {
	self, err := os.Readlink("/proc/self")
	if err != nil {
		return ""
	}
	return self
}

func linesWith(file, text string) []string {
	f, err := os.Open(file)
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = f.Close() }()
	var lines []string
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		if strings.Contains(scanner.Text(), text) {
			lines = append(lines, scanner.Text())
		}
	}
	return lines
}
