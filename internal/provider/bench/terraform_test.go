package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	virtfleet "github.com/virtfleet/terraform-provider-virtfleet/internal/provider"
)

const (
	// providerEnv names the released provider's binary.
	providerEnv = "VIRTFLEET_PROVIDER"
	binaryName  = "terraform-provider-virtfleet"
	version     = "0.0.1"

	// commandTimeout bounds one Terraform command. Creating a thousand VMs is the longest.
	commandTimeout = 20 * time.Minute
	// creations is how many VMs are created at a time, which is not what is measured.
	creations = "20"
)

// installation is how Terraform finds the provider: in a mirror, as people have it, or in a directory.
const installation = `disable_checkpoint = true
provider_installation {
  %s
  direct { exclude = ["virtfleet/virtfleet"] }
}
`

// configuration has VMs of ordinary size, each pinned to a host, in turn, and of five kinds, in turn. They don't run:
// what a plan reads of them is the same, and a thousand guests don't fit here.
const configuration = `terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

variable "hosts" {
  type = map(object({ uri = string, known_hosts = string }))
}

variable "vms" {
  type = number
}

provider "virtfleet" {
  hosts = { for name, h in var.hosts : name => {
    uri = h.uri, memory_limit = "16Ti", ssh = { known_hosts_file = h.known_hosts }
  } }
  ssh = { private_key_file = %q, config_file = "none", agent = false }
}

resource "virtfleet_storage_pool" "media" {
  name   = "media"
  type   = "dir"
  target = { path = "/var/lib/libvirt/media" }
}

locals {
  kinds = ["cloud", "uefi", "serial", "pinned", "desktop"]
  vms = { for i in range(var.vms) : format("vm-%%04d", i) => {
    host = keys(var.hosts)[i %% length(var.hosts)], kind = local.kinds[i %% length(local.kinds)]
  } }
}

resource "virtfleet_virtual_machine" "this" {
  for_each = local.vms

  name         = each.key
  host         = each.value.host
  type         = "qemu"
  run_strategy = "Halted"
  labels       = { app = each.value.kind, tier = "prod" }
  title        = "VM of kind ${each.value.kind}"
  description  = "Serves the web."

  cpu = {
    cores   = 2
    sockets = 1
    shares  = 2048
    quota   = each.value.kind == "serial" ? 50000 : null
    pin     = each.value.kind == "pinned" ? { 0 = "0", 1 = "0" } : null
    numa = each.value.kind == "pinned" ? {
      0 = { cpus = "0", memory = "1Gi", distances = { 1 = 21 } }
      1 = { cpus = "1", memory = "1Gi", distances = { 0 = 21 } }
    } : null
  }
  memory = {
    size     = "2Gi"
    balloon  = { stats_period = 5, free_page_reporting = true }
    shared   = each.value.kind == "desktop" ? true : null
    numatune = each.value.kind == "pinned" ? { mode = "strict", nodeset = "0" } : null
  }
  firmware = each.value.kind == "uefi" ? { type = "efi" } : null
  cloud_init = each.value.kind == "cloud" ? {
    user_data = "#cloud-config\nhostname: ${each.key}\n", pool = virtfleet_storage_pool.media.name
  } : null
  disks = {
    root = {
      file = "/var/lib/libvirt/images/${each.key}-root.qcow2", format = "qcow2", boot_order = 1, iothread = 1
      io_tune = { total_iops_sec = 5000 }
    }
    data = {
      pool   = each.value.kind == "cloud" ? virtfleet_storage_pool.media.name : null
      size   = each.value.kind == "cloud" ? "1Gi" : null
      file   = each.value.kind == "cloud" ? null : "/var/lib/libvirt/images/${each.key}-data.raw"
      format = "raw", cache = "none"
    }
  }
  interfaces = { for key, i in {
    lan = { network = "default", bandwidth = { inbound = { average = 12500 }, outbound = { average = 12500 } } }
    dmz = { bridge = "br-lab", virtual_port = { type = "openvswitch" }, vlan = { tags = [42] }, mtu = 1450 }
  } : key => i if key == "lan" || each.value.kind == "pinned" }
  devices = {
    graphics = { type = "vnc" }
    inputs   = { tablet = { type = "tablet", bus = "usb" } }
    rng      = { rate_bytes = 1024 }
    watchdog = { action = "reset" }
    tpm      = each.value.kind == "uefi" ? { model = "tpm-crb" } : null
    serials = each.value.kind == "serial" ? {
      console = { type = "pty", log_file = "/var/log/libvirt/${each.key}-console.log" }
      modem   = { type = "file", path = "/var/log/libvirt/${each.key}-modem.log" }
    } : null
    channels    = each.value.kind == "serial" ? { control = { type = "unix", name = "org.example.control" } } : null
    video       = each.value.kind == "desktop" ? { model = "virtio", heads = 2 } : null
    sound       = each.value.kind == "desktop" ? {} : null
    filesystems = each.value.kind == "desktop" ? { home = { target = "home", source = "/srv" } } : null
  }
  platform = {
    clock     = { offset = "utc" }
    hyperv    = each.value.kind == "uefi" ? { relaxed = true, spinlocks = 8191, vendor_id = "KVM Hv" } : null
    events    = { on_crash = "restart" }
    iothreads = 1
  }

  guest_agent              = { enabled = true }
  termination_grace_period = "60s"
}
`

// route is a way to the hosts.
type route map[string]hostRoute

type hostRoute struct {
	URI        string `json:"uri"`
	KnownHosts string `json:"known_hosts"`
}

// workspace is a directory with a configuration and the state of its VMs, which are on hosts of its own.
type workspace struct {
	lab *lab.Lab
	vms int
	// variables are further ones of the configuration, by name.
	variables map[string]string
	dir       string
	home      string
	hosts     []*lab.Host
	provider  string
}

// newWorkspace boots hosts and creates VMs on them. All of it ends with the benchmark.
func newWorkspace(b *testing.B, l *lab.Lab, hosts, vms int) *workspace {
	b.Helper()
	w := newHosts(b, l, hosts)
	w.vms = vms
	w.create(b, fmt.Sprintf(configuration, l.PrivateKeyFile()))
	return w
}

// newHosts boots hosts.
func newHosts(b *testing.B, l *lab.Lab, hosts int) *workspace {
	b.Helper()
	provider := os.Getenv(providerEnv)
	if provider == "" {
		b.Fatalf("%s has to name the provider's binary: \"make bench\" sets it", providerEnv)
	}
	w := &workspace{lab: l, dir: b.TempDir(), home: b.TempDir(), provider: provider}
	for range hosts {
		// A VM has nothing but its definition, so the host's end is its end.
		w.hosts = append(w.hosts, l.StartHost(b))
	}
	w.install(b)
	return w
}

// create applies a configuration for the first time.
func (w *workspace) create(b *testing.B, configuration string) {
	b.Helper()
	w.write(b, filepath.Join(w.dir, "main.tf"), configuration)
	w.run(b, w.direct(), []string{"init"})
	w.run(b, w.direct(), []string{"apply", "-auto-approve", "-parallelism=" + creations})
}

// install puts the released provider into a mirror, and this program under the provider's name into a directory.
func (w *workspace) install(b *testing.B) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	mirror, probe := filepath.Join(w.home, "mirror"), filepath.Join(w.home, "probe")
	platform := filepath.Join(mirror, virtfleet.Address, version, runtime.GOOS+"_"+runtime.GOARCH)
	for dir, link := range map[string][2]string{
		platform: {w.provider, binaryName + "_v" + version},
		probe:    {self, binaryName},
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			b.Fatal(err)
		}
	}
	w.write(b, w.cliConfig(false), fmt.Sprintf(installation, fmt.Sprintf("filesystem_mirror { path = %q }", mirror)))
	w.write(b, w.cliConfig(true),
		fmt.Sprintf(installation, fmt.Sprintf("dev_overrides { \"virtfleet/virtfleet\" = %q }", probe)))
}

func (w *workspace) cliConfig(probed bool) string {
	return filepath.Join(w.home, fmt.Sprintf("probed-%t.tfrc", probed))
}

func (w *workspace) write(b *testing.B, file, content string) {
	b.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
}

// direct is the way to the hosts without delay.
func (w *workspace) direct() route {
	r := route{}
	for _, h := range w.hosts {
		r[h.Name] = hostRoute{URI: h.URI(), KnownHosts: w.lab.KnownHostsFile()}
	}
	return r
}

// delayed is a way to the hosts with a round trip of that time.
func (w *workspace) delayed(b *testing.B, roundTrip time.Duration) route {
	b.Helper()
	r := route{}
	for _, h := range w.hosts {
		proxy := w.lab.DelayProxy(b, h.Name, roundTrip)
		r[h.Name] = hostRoute{URI: proxy.URI(), KnownHosts: proxy.KnownHostsFile}
	}
	return r
}

// plan makes a plan, which has to be empty, and returns how long it took.
func (w *workspace) plan(b *testing.B, way route, args ...string) time.Duration {
	b.Helper()
	return w.run(b, way, append([]string{"plan", "-detailed-exitcode"}, args...))
}

// probe makes a plan with this program in the provider's place.
func (w *workspace) probe(b *testing.B, role string, way route, args ...string) report {
	b.Helper()
	return w.probed(b, role, way, append([]string{"plan", "-detailed-exitcode"}, args...))
}

// probed is run with this program in the provider's place.
func (w *workspace) probed(b *testing.B, role string, way route, args []string) report {
	b.Helper()
	dir := b.TempDir()
	took, cpu := w.measure(b, way, args, "TF_CLI_CONFIG_FILE="+w.cliConfig(true), roleEnv+"="+role, reportEnv+"="+dir,
		profileEnv+"="+*profileDir)
	r := readReports(b, dir)
	r.took, r.terraform = took, cpu-r.CPU-r.Probe
	return r
}

// run runs a Terraform command, which has to succeed, and returns how long it took. A plan that isn't empty fails.
func (w *workspace) run(b *testing.B, way route, args []string) time.Duration {
	b.Helper()
	took, _ := w.measure(b, way, args)
	return took
}

// measure is run that also returns the CPU time that the command took, its providers' included.
func (w *workspace) measure(b *testing.B, way route, args []string, env ...string) (took, cpu time.Duration) {
	b.Helper()
	hosts, err := json.Marshal(way)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), commandTimeout)
	defer cancel()
	args = append([]string{args[0], "-no-color", "-input=false"}, args[1:]...)
	cmd := exec.CommandContext(ctx, os.Getenv("TF_ACC_TERRAFORM_PATH"), args...)
	// Interrupted, Terraform ends its providers.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Dir = w.dir
	// Tests turn Terraform's garbage collection off, which users don't.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "TF_") || strings.HasPrefix(v, "GOGC=")
	})
	cmd.Env = append(cmd.Env, "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE="+w.cliConfig(false),
		"TF_VAR_hosts="+string(hosts), fmt.Sprintf("TF_VAR_vms=%d", w.vms))
	for name, v := range w.variables {
		cmd.Env = append(cmd.Env, "TF_VAR_"+name+"="+v)
	}
	cmd.Env = append(cmd.Env, env...)
	start := time.Now()
	out, err := cmd.CombinedOutput()
	took = time.Since(start)
	if err != nil {
		b.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return took, cpuOf(cmd.ProcessState)
}
