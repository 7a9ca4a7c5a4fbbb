package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

const (
	// vmName and vmAddress are what examples/demo calls the VM.
	vmName    = "demo"
	vmAddress = "virtfleet_virtual_machine.demo"
	hostCount = 2

	// downTimeout bounds the cleaning up, which also happens after an interruption.
	downTimeout = time.Minute
)

// Config says what the demo runs with.
type Config struct {
	// Provider is the provider's binary.
	Provider string
	// Source is the directory of the configuration, examples/demo.
	Source string
	// Screen is the directory of the configuration that shows one VM on one screen, examples/is-my-vm-alive.
	Screen string
	// Keep leaves everything as it is when a step fails.
	Keep bool
	// Out is where the story is told.
	Out io.Writer
}

// demo is one run.
type demo struct {
	Config
	lab       *lab.Lab
	terraform *terraform
	from, to  *lab.Host
	// address is the VM's, and applied when it was made.
	address string
	applied time.Time
	// unpublish ends the serving of the image.
	unpublish func() error
	// quiet is how long the hosts' logs were when the hosts were up: what daemons complain of at their start on a
	// machine like this explains no failure.
	quiet map[string]int64
}

// logs are the files on a host that may explain a failure.
var logs = []string{
	"/var/log/libvirt/libvirtd.log", "/var/log/libvirt/qemu/" + vmName + ".log", "/var/log/sshd.log",
}

// step is a sentence of the story.
type step struct {
	title string
	do    func(*demo, context.Context) error
}

var steps = []step{
	{"Starting two libvirt hosts on this machine", (*demo).startLab},
	{"terraform init", (*demo).initialise},
	{"terraform apply: an image goes to the hosts, and a VM with a disk from it boots on one of them", (*demo).apply},
	{"Logging in to the VM over SSH", (*demo).login},
	{"terraform plan: nothing to change", (*demo).planIsEmpty},
	{"Moving the VM to the other host by hand, with virsh, while it runs", (*demo).move},
	{"terraform plan: the VM stays there; only its autostart is to be set again", (*demo).planAutostart},
	{"terraform apply -refresh-only: the state follows", (*demo).refresh},
	{"terraform apply with the other host in the configuration: the VM moves back, live", (*demo).moveBack},
	{"terraform plan: nothing to change", (*demo).planIsEmpty},
	{"Is the VM alive? What every layer says of it, on one screen", (*demo).alive},
	{"terraform plan with that host under maintenance: how it will be drained", (*demo).planDrain},
	{"terraform apply: the host is drained, and the VM went on running", (*demo).drain},
	{"terraform plan: nothing to change", (*demo).planIsEmpty},
	{"terraform destroy: the maintenance ends, the VM comes back and is removed with its disk", (*demo).destroy},
}

// Run tells the story. Whatever happens, it removes all that it made, unless it was told to keep a failed run.
func Run(ctx context.Context, cfg Config) (err error) {
	started := time.Now()
	d := &demo{Config: cfg}
	if d.lab, err = lab.NewTemporary(ctx, hostCount); err != nil {
		return err
	}
	err = d.tell(ctx)
	if d.unpublish != nil {
		err = errors.Join(err, d.unpublish())
	}
	if err != nil && cfg.Keep && ctx.Err() == nil {
		d.say("\nAll is kept as it is. Look at it with\n  export %s=%s TF_CLI_CONFIG_FILE=%s\n", lab.DirEnv, d.lab.Dir,
			d.lab.TerraformCLIConfig())
		d.say("  bin/lab usage\n  terraform -chdir=%s show\nand remove it with\n  bin/lab down\n", d.work())
		return err
	}
	d.say("\n==> Removing the hosts and everything of them\n")
	downCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
	defer cancel()
	if downErr := d.lab.Down(downCtx); downErr != nil {
		return errors.Join(err, downErr)
	}
	if residue := d.lab.Residue(); len(residue) > 0 {
		return errors.Join(err, fmt.Errorf("left behind:\n  %s", strings.Join(residue, "\n  ")))
	}
	d.say("Nothing is left: no namespace, process, mount, network device, socket or file.\n")
	if err == nil {
		d.say("\nThe demo took %.0f seconds.\n", time.Since(started).Seconds())
	}
	return err
}

func (d *demo) tell(ctx context.Context) error {
	for i, s := range steps {
		started := time.Now()
		d.say("\n==> %d of %d: %s\n", i+1, len(steps), s.title)
		if err := s.do(d, ctx); err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted")
			}
			return fmt.Errorf("step %d (%s) failed:\n%w\n\n%s", i+1, s.title, err, d.howToLook())
		}
		if residue := d.socketsLeft(); len(residue) > 0 {
			return fmt.Errorf("step %d (%s) left temporary files behind: %s", i+1, s.title, strings.Join(residue, ", "))
		}
		d.say("    (%.1f s)\n", time.Since(started).Seconds())
	}
	return nil
}

// howToLook quotes the logs, which are about to be removed, and says how to keep everything.
func (d *demo) howToLook() string {
	var b strings.Builder
	for _, h := range d.lab.Hosts {
		for _, log := range logs {
			if text := lastLines(h.Path(log), d.quiet[h.Path(log)]); text != "" {
				fmt.Fprintf(&b, "--- the end of %s on %s\n%s\n", log, h.Name, text)
			}
		}
	}
	b.WriteString("To look at the hosts and at Terraform's state after a failure: make demo KEEP=1")
	return b.String()
}

func (d *demo) startLab(ctx context.Context) error {
	if err := d.lab.Up(ctx); err != nil {
		return err
	}
	d.quiet = map[string]int64{}
	for _, h := range d.lab.Hosts {
		d.say("    %s  %s\n", h.Name, h.URI())
		for _, log := range logs {
			if info, err := os.Stat(h.Path(log)); err == nil {
				d.quiet[h.Path(log)] = info.Size()
			}
		}
	}
	return nil
}

func (d *demo) initialise(ctx context.Context) error {
	if err := d.lab.WriteTerraform(d.Provider); err != nil {
		return err
	}
	published, unpublish, err := d.publish(ctx)
	if err != nil {
		return err
	}
	d.unpublish = unpublish
	// Every host sees this machine's files, as it would a directory that it has mounted from an NFS server.
	if err := os.Mkdir(d.shared(), 0o755); err != nil {
		return fmt.Errorf("creating the directory that the hosts share: %w", err)
	}
	if err := os.CopyFS(d.work(), os.DirFS(d.Source)); err != nil {
		return fmt.Errorf("copying the configuration: %w", err)
	}
	hosts := map[string]string{}
	for _, h := range d.lab.Hosts {
		hosts[h.Name] = h.URI()
	}
	variables := map[string]any{
		"hosts":               hosts,
		"private_key_file":    d.lab.PrivateKeyFile(),
		"known_hosts_file":    d.lab.KnownHostsFile(),
		"ssh_public_key_file": d.lab.PrivateKeyFile() + ".pub",
		"image":               map[string]string{"url": published + imageName, "checksum": published + "SHA512SUMS"},
		"directory":           d.shared(),
		"bridge":              lab.LANBridge,
	}
	if err := writeJSON(filepath.Join(d.work(), "terraform.tfvars.json"), variables); err != nil {
		return err
	}
	if d.terraform, err = newTerraform(d.work(), d.lab.TerraformCLIConfig()); err != nil {
		return err
	}
	return d.terraform.run(ctx, "init")
}

func (d *demo) apply(ctx context.Context) error {
	if err := d.terraform.run(ctx, "apply", "-auto-approve"); err != nil {
		return err
	}
	d.applied = time.Now()
	host, err := d.currentHost(ctx)
	if err != nil {
		return err
	}
	if d.from = d.lab.Host(host); d.from == nil {
		return fmt.Errorf("the state says that the VM is on %q, which is no host of the lab", host)
	}
	for _, h := range d.lab.Hosts {
		if h != d.from {
			d.to = h
		}
	}
	outputs, err := d.terraform.outputs(ctx)
	if err != nil {
		return err
	}
	d.say("%s", outputs)
	d.say("    %-18s%s\n", "host", host)
	return d.runsOn(ctx, d.from)
}

// planIsEmpty fails unless the plan has no change, not even of an output.
func (d *demo) planIsEmpty(ctx context.Context) error {
	return d.terraform.run(ctx, "plan", "-detailed-exitcode")
}

func (d *demo) destroy(ctx context.Context) error {
	if err := d.terraform.run(ctx, "destroy", "-auto-approve"); err != nil {
		return err
	}
	for _, h := range d.lab.Hosts {
		list, err := h.Virsh(ctx, "list", "--all", "--name")
		if err != nil {
			return err
		}
		if left := strings.Fields(list); len(left) > 0 {
			return fmt.Errorf("host %s still has %s", h.Name, strings.Join(left, ", "))
		}
	}
	if files, err := os.ReadDir(d.shared()); err != nil || len(files) > 0 {
		return fmt.Errorf("the storage pool's directory still has %v (%w)", files, err)
	}
	return nil
}

// currentHost is what Terraform's state says of where the VM is.
func (d *demo) currentHost(ctx context.Context) (string, error) {
	values, err := d.terraform.resource(ctx, vmAddress)
	if err != nil {
		return "", err
	}
	host, ok := values["current_host"].(string)
	if !ok {
		return "", fmt.Errorf("the state of %s has no current_host", vmAddress)
	}
	return host, nil
}

// runsOn asks the hosts themselves whether the VM runs on that one, and is unknown to the others.
func (d *demo) runsOn(ctx context.Context, want *lab.Host) error {
	for _, h := range d.lab.Hosts {
		list, err := h.Virsh(ctx, "list", "--all", "--name")
		if err != nil {
			return err
		}
		there := strings.TrimSpace(list) == vmName
		if there != (h == want) {
			return fmt.Errorf("the VM should be on %s, but virsh on %s lists %q", want.Name, h.Name, list)
		}
	}
	state, err := want.Virsh(ctx, "domstate", vmName)
	if err != nil {
		return err
	}
	if strings.TrimSpace(state) != "running" {
		return fmt.Errorf("the VM on %s is %s", want.Name, strings.TrimSpace(state))
	}
	return nil
}

// shared is the directory of the storage pool, the same on every host.
func (d *demo) shared() string { return filepath.Join(d.lab.Dir, "shared") }

// work is where Terraform runs: it is removed with the lab.
func (d *demo) work() string { return filepath.Join(d.lab.Dir, "demo") }

// socketsLeft returns what is in the directory for temporary files that Terraform and the provider were given.
func (d *demo) socketsLeft() []string {
	if d.terraform == nil {
		return nil
	}
	entries, err := os.ReadDir(d.terraform.temp)
	if err != nil {
		return []string{err.Error()}
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.Out, format, args...) }

// lastLines returns the end of a log, of what came after an offset; "" when there is nothing.
func lastLines(path string, offset int64) string {
	const most = 15
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(data[min(offset, int64(len(data))):])), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
