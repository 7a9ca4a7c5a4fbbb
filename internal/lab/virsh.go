package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tests look at domains a hundred times a minute. To start a virsh takes more of the processor than what it does, so
// one that is kept answers what changes nothing.

// readOnlyCommands are the commands of virsh that change nothing.
var readOnlyCommands = []string{
	"checkpoint-list", "domblkinfo", "domblklist", "domid", "domiflist", "dominfo", "domjobinfo", "domstate", "domstats",
	"domuuid", "dumpxml", "list", "net-dumpxml", "net-list", "nodedev-list", "pool-dumpxml", "pool-info", "pool-list",
	"secret-list", "snapshot-list", "vol-dumpxml", "vol-info", "vol-list",
}

// plainWord is an argument that virsh takes as it is.
var plainWord = regexp.MustCompile(`^[\w.:/@%+=,-]+$`)

const (
	// virsh breaks lines that are wider than its terminal. longestLook fits into it with the prompt, also if it names a
	// domain that is named after a test.
	shellEnv    = "COLUMNS=500"
	longestLook = 400
	// keptShells is how many are kept for a host: more are asked at the same time seldom.
	keptShells = 2
	prompt     = "virsh # "
)

// Virsh runs virsh on the host and returns what it printed.
func (h *Host) Virsh(ctx context.Context, args ...string) (string, error) {
	line := strings.Join(args, " ")
	isLook := len(args) > 0 && slices.Contains(readOnlyCommands, args[0]) && len(line) <= longestLook &&
		!slices.ContainsFunc(args, func(arg string) bool { return !plainWord.MatchString(arg) })
	if isLook {
		if out, err := shells.ask(ctx, h.SocketURI(), line); err == nil {
			return out, nil
		}
	}
	// A look that failed is taken again: whether libvirtd was started anew or the look is refused, this tells it.
	return h.machine.run(ctx, "virsh", append([]string{"--quiet", "--connect", "qemu:///system"}, args...)...)
}

// shells are the kept ones that answer nothing at the moment, by the address of their libvirtd.
var shells = shellPool{idle: map[string][]*shell{}}

type shellPool struct {
	mu   sync.Mutex
	idle map[string][]*shell
}

// ask returns what virsh prints for a line.
func (p *shellPool) ask(ctx context.Context, uri, line string) (string, error) {
	s, err := p.take(uri)
	if err != nil {
		return "", err
	}
	out, err := s.ask(ctx, line)
	if err != nil {
		s.close()
		return "", err
	}
	p.keep(uri, s)
	if strings.HasPrefix(out, "error: ") || strings.Contains(out, "\nerror: ") {
		return "", fmt.Errorf("virsh %s: %s", line, out)
	}
	return out, nil
}

func (p *shellPool) take(uri string) (*shell, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle[uri]); n > 0 {
		s := p.idle[uri][n-1]
		p.idle[uri] = p.idle[uri][:n-1]
		return s, nil
	}
	return startShell(uri)
}

func (p *shellPool) keep(uri string, s *shell) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle[uri]) >= keptShells {
		s.close()
		return
	}
	p.idle[uri] = append(p.idle[uri], s)
}

// forget ends those of a libvirtd that goes for good.
func (p *shellPool) forget(uri string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.idle[uri] {
		s.close()
	}
	delete(p.idle, uri)
}

// shell is a virsh that reads its commands from a pipe. It ends with this process, which ends the pipe.
type shell struct {
	cmd     *exec.Cmd
	in, out *os.File
	asked   int
}

func startShell(uri string) (*shell, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting virsh: %w", err)
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting virsh: %w", err), stdin.Close(), in.Close())
	}
	// It outlives the caller's context. Without messages that keep the connection alive it sleeps until it is asked.
	cmd := exec.Command("virsh", "--quiet", "--keepalive-interval", "0", "--connect", uri) //nolint:noctx // see above.
	cmd.Dir, cmd.Env = "/", append(machineEnv(), shellEnv)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stdout
	err = errors.Join(cmd.Start(), stdin.Close(), stdout.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting virsh: %w", err), in.Close(), out.Close())
	}
	return &shell{cmd: cmd, in: in, out: out}, nil
}

// ask writes the line, and one more that marks where the answer ends. virsh repeats what it reads after its prompt.
func (s *shell) ask(ctx context.Context, line string) (string, error) {
	s.asked++
	mark := fmt.Sprintf("answered-%d", s.asked)
	stop := context.AfterFunc(ctx, func() { _ = s.out.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := fmt.Fprintf(s.in, "%s\necho %s\n", line, mark); err != nil {
		return "", fmt.Errorf("asking virsh: %w", err)
	}
	var said []byte
	chunk := make([]byte, 64<<10)
	end := prompt + "echo " + mark + "\n" + mark
	for {
		n, err := s.out.Read(chunk)
		said = append(said, chunk[:n]...)
		if before, _, ok := strings.Cut(string(said), end); ok {
			// The prompt came with the last answer, or comes now.
			answer, ok := strings.CutPrefix(strings.TrimPrefix(before, prompt), line+"\n")
			if !ok {
				return "", fmt.Errorf("virsh doesn't repeat %q: %q", line, before)
			}
			return answer, nil
		}
		if err != nil {
			return "", fmt.Errorf("asking virsh for %s: %w", line, errors.Join(err, context.Cause(ctx)))
		}
	}
}

func (s *shell) close() {
	_ = s.in.Close()
	_ = s.out.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}
