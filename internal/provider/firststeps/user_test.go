package firststeps_test

import (
	"bytes"
	"context"
	"crypto/sha512"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// root is the repository, seen from this package.
const root = "../../.."

// commandTimeout bounds one command: an apply that boots a guest on a busy computer takes longest. It is more than the
// wait_for.timeout of the examples, so that such an apply says what it waited for.
const commandTimeout = 12 * time.Minute

// onHost is where a command runs on a host, which reaches no DNS server and needn't wait for one.
const onHost = "cd /run; export RES_OPTIONS='timeout:1 attempts:1'; "

// account is the user's name on the hosts. The documentation has root, and says to replace it.
const account = "admin"

// user is a new user on a computer of their own: a home directory with an SSH key, and two hosts under the names that
// the documentation has. Nothing was set up on the hosts, except that an ordinary account accepts the key, and that
// they resolve each other's names. The user has never connected to any of them.
type user struct {
	home  string
	env   []string
	lab   *lab.Lab
	hosts map[string]*lab.Host
	// image is where the lab's guest is published, as a variable of the example.
	image string
	// ran are the commands that were run as they are printed.
	ran map[string]bool
	// steps are these commands in their order.
	steps []step
}

func newUser(t *testing.T) *user {
	t.Helper()
	l := lab.Open(t)
	acctest.NeedsTerraform(t)
	u := &user{home: t.TempDir(), lab: l, hosts: map[string]*lab.Host{}, ran: map[string]bool{}}
	u.image = publish(t, l)
	// The hosts' QEMU, which is no user of this computer, has disks in a directory of the home directory.
	for _, dir := range []string{u.home, filepath.Dir(u.home)} {
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	key, err := os.ReadFile(l.PrivateKeyFile())
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(l.PrivateKeyFile() + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	u.write(t, ".ssh/id_ed25519", string(key), 0o600)
	u.write(t, ".ssh/id_ed25519.pub", string(public), 0o644)
	// OpenSSH takes the home directory from the accounts of this computer.
	u.write(t, ".local/bin/ssh", "#!/bin/sh\nexec /usr/bin/ssh -F "+u.home+"/.ssh/config \"$@\"\n", 0o755)
	u.write(t, askpass, answering, 0o755)
	terraform := filepath.Join(u.home, ".local/bin/terraform")
	if err := os.Symlink(os.Getenv("TF_ACC_TERRAFORM_PATH"), terraform); err != nil {
		t.Fatal(err)
	}
	u.environment(t)
	u.hasHost(t, "kvm1")
	u.hasHost(t, "kvm2")
	return u
}

// askpass is what OpenSSH asks instead of a terminal, and answer is what it says. Asked again, it says no.
const (
	askpass   = ".ssh/askpass"
	answer    = ".ssh/answer"
	answering = `#!/bin/sh
case $1 in
"Please type"*) echo no ;;
*) cat "${0%/*}/answer" ;;
esac
`
)

// hasHost gives the user one more host.
func (u *user) hasHost(t *testing.T, name string) {
	t.Helper()
	h := u.lab.StartFreshHost(t)
	u.hosts[name] = h
	u.lab.AddUser(t, h, account)
	config := fmt.Sprintf("IdentityFile ~/.ssh/id_ed25519\nUserKnownHostsFile %[1]s/.ssh/known_hosts\n"+
		"IdentityFile %[1]s/.ssh/id_ed25519\n", u.home)
	names := "127.0.0.1 localhost\n"
	for name, h := range u.hosts {
		config += fmt.Sprintf("Host %s.example.net\n  HostName %s\n  HostKeyAlias %[2]s\n", name, h.Address)
		names += fmt.Sprintf("%s %s %s.example.net\n", h.Address, h.Name, name)
	}
	for _, h := range u.hosts {
		u.lab.Run(t, h.Name, "sh", "-c", `printf %s "$1" >/etc/hosts`, "sh", names)
	}
	u.write(t, ".ssh/config", config, 0o600)
}

// connects puts the account into the group libvirt, and connects to the host for the first time, as the pages say. The
// user compares the fingerprint, which OpenSSH does with one that is the answer, and so accepts the key. What is asked
// later is about new guests: the answer is yes.
func (u *user) connects(t *testing.T, host string) {
	t.Helper()
	u.onHost(t, host, "usermod -aG libvirt <user>", "<user>", account)
	fingerprint := strings.Fields(u.lab.Run(t, u.hosts[host].Name, "ssh-keygen", "-l", "-f",
		"/etc/ssh/ssh_host_ed25519_key.pub"))[1]
	u.write(t, answer, fingerprint+"\n", 0o600)
	said := u.prints(t, u.home, "ssh root@kvm1.example.net", "id -nG\n", "kvm1", host)
	if !strings.Contains(said, "Permanently added '"+u.hosts[host].Address+"'") || !strings.Contains(said, "libvirt") {
		t.Errorf("the first login to %s says:\n%s", host, said)
	}
	u.write(t, answer, "yes\n", 0o600)
}

// environment is the user's own. Only what Go has built already is this computer's.
func (u *user) environment(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TF_") && !strings.HasPrefix(v, "HOME=") && !strings.HasPrefix(v, "PATH=") &&
			!strings.HasPrefix(v, "SSH_AUTH_SOCK=") && !strings.HasPrefix(v, "GOFLAGS=") && !strings.HasPrefix(v, "MAKE") {
			u.env = append(u.env, v)
		}
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		u.env = append(u.env, name+"="+strings.TrimSpace(string(value)))
	}
	bin := filepath.Join(u.home, ".local/bin")
	u.env = append(u.env, "TF_CLI_ARGS=-no-color", "HOME="+u.home, "BINDIR="+bin, "PATH="+bin+":"+os.Getenv("PATH"),
		"CHECKPOINT_DISABLE=1", "SSH_ASKPASS="+filepath.Join(u.home, askpass), "SSH_ASKPASS_REQUIRE=force")
}

// install installs the provider as the README says.
func (u *user) install(t *testing.T) {
	t.Helper()
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if said := u.prints(t, repository, "make install", ""); !strings.Contains(said, u.home+"/.local/bin/virtfleet") {
		t.Errorf("it doesn't say where the commands are:\n%s", said)
	}
	u.prints(t, repository, "make install ADDRESS=registry.opentofu.org/virtfleet/virtfleet", "")
	plugins := filepath.Join(u.home, ".terraform.d/plugins")
	for _, registry := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		files, err := filepath.Glob(filepath.Join(plugins, registry, "virtfleet/virtfleet/*/*/*"))
		if err != nil || len(files) != 1 {
			t.Errorf("of the registry %s there are the plugins %v (%v)", registry, files, err)
		}
	}
}

// publish serves the guest's image with its checksum, as distributions do, and returns the variable of the example.
func publish(t *testing.T, l *lab.Lab) string {
	t.Helper()
	file, err := l.GuestImage()
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const name = "guest.qcow2"
	modified := time.Now()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content := image
		if r.URL.Path == "/SHA512SUMS" {
			content = fmt.Appendf(nil, "%x  %s\n", sha512.Sum512(image), name)
		}
		http.ServeContent(w, r, filepath.Base(r.URL.Path), modified, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf(`{ url = "%[1]s/%[2]s", checksum = "%[1]s/SHA512SUMS" }`, server.URL, name)
}

// directory makes a directory with the files of an example, and with the lab's settings of the provider.
func (u *user) directory(t *testing.T, name string, examples ...string) string {
	t.Helper()
	for _, example := range examples {
		files, err := filepath.Glob(filepath.Join(root, "examples", example, "*.tf"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no example: %v", example, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			u.write(t, filepath.Join(name, strings.ReplaceAll(example, "/", "_")+"_"+filepath.Base(file)), string(text), 0o644)
		}
	}
	// The lab's guests run without KVM.
	u.write(t, filepath.Join(name, "lab_override.tf"),
		"provider \"virtfleet\" {\n  default_domain_type = \"qemu\"\n}\n", 0o644)
	return filepath.Join(u.home, name)
}

func (u *user) write(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	file := filepath.Join(u.home, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(asUser(content)), mode); err != nil {
		t.Fatal(err)
	}
}

// asUser replaces root by the user's own account, as the pages say.
func asUser(text string) string { return strings.ReplaceAll(text, "root@", account+"@") }

// printed notes that a command is run as the documentation prints it, and returns it with what the user writes in the
// place of its placeholders: pairs of the printed and the real text.
func (u *user) printed(command string, replaced ...string) string {
	u.ran[command] = true
	return strings.NewReplacer(replaced...).Replace(asUser(command))
}

// prints runs a command that the documentation prints, with what the user types then, and returns what it says.
func (u *user) prints(t *testing.T, dir, command, input string, replaced ...string) string {
	t.Helper()
	command = u.printed(command, replaced...)
	defer u.step(command, time.Now())
	return u.does(t, dir, command, input)
}

// onHost runs a command that the documentation prints on a host, as root, and returns what it says.
func (u *user) onHost(t *testing.T, host, command string, replaced ...string) string {
	t.Helper()
	command = u.printed(command, replaced...)
	defer u.step(host+"# "+command, time.Now())
	return u.lab.Run(t, u.hosts[host].Name, "sh", "-c", onHost+command)
}

// does is prints for what isn't documented.
func (u *user) does(t *testing.T, dir, command, input string) string {
	t.Helper()
	said, err := u.tries(t, dir, command, input)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, said)
	}
	return said
}

// planFails runs a plan that has to fail, and returns what it says.
func (u *user) planFails(t *testing.T, dir string) string {
	t.Helper()
	defer u.step(plan+"  (fails)", time.Now())
	said, err := u.tries(t, dir, u.printed(plan), "")
	if err == nil {
		t.Errorf("the plan doesn't fail:\n%s", said)
	}
	return said
}

func (u *user) tries(t *testing.T, dir, command, input string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := u.command(ctx, dir, command)
	cmd.Stdin = strings.NewReader(input)
	said, err := cmd.CombinedOutput()
	return string(said), err
}

func (u *user) command(ctx context.Context, dir, command string) *exec.Cmd {
	// What a program says is seen at once, as on a terminal.
	cmd := exec.CommandContext(ctx, "stdbuf", "-oL", "bash", "-c", asUser(command))
	cmd.Dir, cmd.Env = dir, u.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// meanwhile runs a command that the documentation prints and that continues until Ctrl-C, while something is done,
// which can look at what the command said so far. It returns what the command said.
func (u *user) meanwhile(t *testing.T, dir, command, begun string, do func(said func() string)) string {
	t.Helper()
	command = u.printed(command)
	began := time.Now()
	defer func() {
		u.steps = append(u.steps, step{text: command, took: time.Since(began), meanwhile: true})
	}()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	file, err := os.CreateTemp(u.home, "said")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	cmd := u.command(ctx, dir, command)
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	deadline, tick := time.After(5*time.Minute), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(said(), begun) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s doesn't say %q:\n%s", command, begun, said())
		}
	}
	do(said)
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // Ctrl-C is how it ends.
	return said()
}
