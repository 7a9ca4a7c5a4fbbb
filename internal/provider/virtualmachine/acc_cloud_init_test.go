package virtualmachine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/kdomanski/iso9660"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// seedIn reads the medium that is in a VM's drive, and who may read its file, "" where the drive is empty.
func seedIn(t *testing.T, l *lab.Lab, host, name string) (files map[string]string, mode string, err error) {
	t.Helper()
	source := regexp.MustCompile(`(?s)<disk[^>]*device='cdrom'>.*?</disk>`).FindString(l.Virsh(t, host, "dumpxml", name))
	if !strings.Contains(source, "ua-disk-cloud-init") || !strings.Contains(source, "<readonly/>") {
		return nil, "", fmt.Errorf("the VM has no drive for the medium: %q", source)
	}
	found := regexp.MustCompile(`<source file='([^']+)'`).FindStringSubmatch(source)
	if found == nil {
		return nil, "", nil
	}
	file, err := os.Open(l.Host(host).Path(found[1]))
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	image, err := iso9660.OpenImage(file)
	if err != nil {
		return nil, "", err
	}
	label, err := image.Label()
	if err != nil || label != "cidata" {
		return nil, "", fmt.Errorf("the medium has the label %q: %w", label, err)
	}
	root, err := image.RootDir()
	if err != nil {
		return nil, "", err
	}
	children, err := root.GetChildren()
	files = map[string]string{}
	for _, child := range children {
		content, readErr := io.ReadAll(child.Reader())
		files[child.Name()], err = string(content), errors.Join(err, readErr)
	}
	return files, strings.TrimSpace(l.Run(t, host, "stat", "-c", "%a %U", found[1])), err
}

// keepEjecting has libvirt ask the guest of a VM for its medium until stop is called. It returns while libvirt waits
// for the guest: the definition of the running VM has no medium then.
func keepEjecting(t *testing.T, l *lab.Lab, host, name string) (stop func()) {
	t.Helper()
	drive := driveOf(t, l, host, name)
	var asking sync.WaitGroup
	var enough atomic.Bool
	asking.Go(func() {
		for !enough.Load() {
			_, _ = l.TryVirsh(t, host, "change-media", name, drive, "--eject", "--live")
		}
	})
	stop = func() { enough.Store(true); asking.Wait() }
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		files, _, err := seedIn(t, l, host, name)
		if err == nil && files == nil {
			return stop
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the definition has %q, %v", files, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// driveOf returns the target of a VM's CD-ROM drive.
func driveOf(t *testing.T, l *lab.Lab, host, name string) string {
	t.Helper()
	return strings.Fields(l.Run(t, host, "sh", "-c", "virsh -q domblklist --details "+name+" | grep cdrom"))[2]
}

// waitForHostname waits until a guest has a name.
func waitForHostname(t *testing.T, l *lab.Lab, host, name, want string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		out, err := l.TryVirsh(t, host, "guestinfo", "--hostname", name)
		if strings.Contains(out, ": "+want+"\n") || strings.HasSuffix(strings.TrimSpace(out), ": "+want) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the guest isn't called %q: %q, %w", want, out, err)
		case <-time.After(time.Second):
		}
	}
}

// TestAccVirtualMachine_cloudInit: the medium is made with the VM, for QEMU alone to read; its guest boots from it; it
// is replaced in the drive while the guest runs, put back where it was taken out, and goes.
func TestAccVirtualMachine_cloudInit(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	const secret = "correct-horse"
	// The host whose QEMU isn't root's.
	base := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm3")}}}.String() + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
`, name)
	seed := func(version, more string) string {
		return fmt.Sprintf("{ user_data_wo = %q, vendor_data = %q, network_config_wo = %q, user_data_wo_version = %q, "+
			"network_config_wo_version = \"1\", %s }",
			"#cloud-config\npassword: "+secret+version+"\n", "#cloud-config\nlocale: C.UTF-"+version+"\n",
			"version: 2\nwifis: {wlan0: {access-points: {lab: {password: "+secret+"-wifi"+version+"}}}}\n", version, more)
	}
	// With one version, all write-only values are written again.
	const secondName = `meta_data_wo = "local-hostname: second", meta_data_wo_version = "1", instance_id = "i-2"`
	configWith := func(more hcl, cloudInit string) string {
		return base + vmWithKernelWords(l, name, "seed").with(talking).with(hcl{
			"host": quote("kvm3"), "termination_grace_period": quote("1m0s"),
			"disks":      `{ root = { pool = virtfleet_storage_pool.vms.name, size = "16Mi" } }`,
			"cloud_init": cloudInit,
		}).with(more).String()
	}
	config := func(cloudInit string) string { return configWith(nil, cloudInit) }
	is := func(want map[string]string, pools ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			files, mode, err := seedIn(t, l, "kvm3", name)
			if err != nil {
				return err
			}
			for file, part := range want {
				if !strings.Contains(files[file], part) {
					return fmt.Errorf("%s of the medium is %q; want %q", file, files[file], part)
				}
			}
			if want != nil && mode != "600 libvirt-qemu" || want == nil && files != nil {
				return fmt.Errorf("the medium's mode and owner are %q", mode)
			}
			if got := volumes(t, l, "kvm3", name); !slices.Equal(got, pools) {
				return fmt.Errorf("the storage pool has %q; want %q", got, pools)
			}
			if got := qemuExitReasons(t, l, "kvm3", name); got != "" {
				return fmt.Errorf("QEMU ended by %q", got)
			}
			return nil
		}
	}
	silent := func(s *terraform.State) error {
		if strings.Contains(s.String(), secret) || strings.Contains(l.Virsh(t, "kvm3", "dumpxml", name), secret) {
			return errors.New("the state or the definition has the secret")
		}
		return nil
	}
	root, medium := name+"-root", name+"-cloud-init"
	locked := hcl{"timeouts": `{ update = "12s" }`} // This is shorter than the guest is asked to open the tray.
	isLocked := regexp.MustCompile(`(?s)guest\s+has\s+locked\s+the\s+drive`)
	var stopAsking func()
	story(t, l, []string{name}, resource.TestStep{
		Config: config(`{ user_data = "users: []" }`), ExpectError: regexp.MustCompile(`#cloud-config`),
	}, resource.TestStep{
		Config: config(`{ pool = "absent" }`), ExpectError: regexp.MustCompile(`no storage pool "absent"`),
	}, resource.TestStep{
		Config:           config(seed("1", "")),
		ConfigPlanChecks: changes(plancheck.ResourceActionCreate, planned("cloud_init.user_data_wo", knownvalue.Null())),
		ConfigStateChecks: []statecheck.StateCheck{
			know("ready", knownvalue.Bool(true)), know("cloud_init.user_data_wo", knownvalue.Null()),
			know("disks", knownvalue.MapSizeExact(1)),
		},
		Check: resource.ComposeTestCheckFunc(silent, is(map[string]string{
			"user-data": secret + "1", "meta-data": "local-hostname: " + name,
			"vendor-data": "locale: C.UTF-1", "network-config": secret + "-wifi1",
		}, medium, root), func(s *terraform.State) error {
			id := s.RootModule().Resources[address].Primary.ID
			if err := is(map[string]string{"meta-data": "instance-id: " + id}, medium, root)(s); err != nil {
				return err
			}
			return waitForHostname(t, l, "kvm3", name, name)
		}),
	}, resource.TestStep{
		ResourceName: address, ImportState: true, ImportStateVerify: true, ImportStateId: name,
		ImportStateVerifyIgnore: readWhereDeclared("run_strategy", "timeouts", "status_reason", "host", "cloud_init",
			"wait_for"),
	}, resource.TestStep{
		// The guest boots again, in the same process, from what is in its drive now.
		Config:           config(seed("2", secondName)),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(silent, is(map[string]string{
			"user-data": secret + "2", "meta-data": "instance-id: i-2",
			"vendor-data": "locale: C.UTF-2", "network-config": secret + "-wifi2",
		}, medium, root), func(*terraform.State) error {
			l.Virsh(t, "kvm3", "reset", name)
			return waitForHostname(t, l, "kvm3", name, "second")
		}),
	}, resource.TestStep{
		PreConfig: func() {
			l.Virsh(t, "kvm3", "change-media", name, driveOf(t, l, "kvm3", name), "--eject", "--live", "--config", "--force")
		},
		Config:           config(seed("2", secondName)),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check:            is(map[string]string{"user-data": secret + "2"}, medium, root),
	}, resource.TestStep{
		// While the guest has the drive open, its tray is locked.
		PreConfig: func() {
			outputInGuest(t, l, "kvm3", name, `until (: </dev/sr0) 2>/dev/null; do sleep 0.1; done
sleep 100000 </dev/sr0 >/dev/null 2>&1 &
echo $! >/held; sleep 1`)
		},
		Config: configWith(locked, ""), ExpectError: isLocked,
	}, resource.TestStep{
		// libvirt waits for the guest on behalf of another program, as it does for a run that was killed.
		PreConfig: func() { stopAsking = keepEjecting(t, l, "kvm3", name) },
		Config:    configWith(locked, ""), ExpectError: isLocked,
	}, resource.TestStep{
		// The definition has no medium any more, and the applies that failed have left its file.
		PreConfig: func() {
			stopAsking()
			if got := volumes(t, l, "kvm3", name); !slices.Equal(got, []string{medium, root}) {
				t.Errorf("the storage pool has %q", got)
			}
			outputInGuest(t, l, "kvm3", name, `kill $(cat /held)`)
		},
		Config: configWith(locked, ""), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: is(nil, root),
	}, resource.TestStep{
		Config:           config(seed("3", `user_data = null, pool = "default"`)),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check:            is(map[string]string{"user-data": secret + "3"}, root),
	}, resource.TestStep{
		Config: base,
		Check: func(*terraform.State) error {
			left := l.Run(t, "kvm3", "sh", "-c", "ls /var/lib/libvirt/images /var/lib/libvirt/"+name)
			if strings.Contains(left, name+"-") {
				return fmt.Errorf("left are %s", left)
			}
			return nil
		},
	})
}

// TestAccVirtualMachine_ignition: QEMU gets the configuration from a volume that only QEMU can read. A change needs a
// restart, and what isn't used any more goes. QEMU on the target opens the file when the VM arrives, so that it goes
// along: while the VM runs, and while it is off.
func TestAccVirtualMachine_ignition(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	// The first host's QEMU runs as a user of its own, the other's as root.
	const first, other = "kvm3", "kvm1"
	base := providerBlock(l, "", l.Host(first), l.Host(other)) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
}
`, name)
	configuration := func(version string) string { return fmt.Sprintf(`{"ignition": {"version": %q}}`, version) }
	config := func(host string, more hcl) string {
		return base + idleVM(l, name).with(hcl{
			"host": quote(host), "disks": `{ root = { pool = virtfleet_storage_pool.vms.name, size = "16Mi" } }`,
		}).with(more).String()
	}
	ignition := func(version, wo string) hcl {
		return hcl{"ignition": fmt.Sprintf("{ config_wo = %q, config_wo_version = %q }", configuration(version), wo)}
	}
	entry := regexp.MustCompile(`name='opt/com.coreos/config' file='([^']+)'`)
	// is expects the configuration on a host, and only these files in the pools.
	is := func(host, want string, files ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			for _, which := range []string{"--inactive", "--security-info"} {
				found := entry.FindStringSubmatch(l.Virsh(t, host, "dumpxml", which, name))
				if (found != nil) != (want != "") {
					return fmt.Errorf("the definition (%s) has %q", which, found)
				}
				if found == nil {
					continue
				}
				content, err := os.ReadFile(l.Host(host).Path(found[1]))
				if mode := l.Run(t, host, "stat", "-c", "%a", found[1]); err != nil || string(content) != want ||
					strings.TrimSpace(mode) != "600" {
					return fmt.Errorf("the file is %q of mode %s: %w", content, mode, err)
				}
			}
			for _, h := range []string{first, other} {
				if got := volumes(t, l, h, name); h == host && !slices.Equal(got, files) || h != host && len(got) > 0 {
					return fmt.Errorf("the storage pool of %s has %q; want %q on %s", h, got, files, host)
				}
			}
			return nil
		}
	}
	root, file := name+"-root", name+"-ignition"
	updated := func(host string, more hcl, check resource.TestCheckFunc) resource.TestStep {
		return resource.TestStep{
			Config:           config(host, hcl{"update_policy": quote("Restart")}.with(more)),
			ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: check,
			ConfigStateChecks: []statecheck.StateCheck{
				know("current_host", exactly(host)), know("location.left_volumes", knownvalue.ListExact(nil)),
			},
		}
	}
	last := ignition("3.4.0", "3")
	kept := is(other, configuration("3.4.0"), file, root)
	// The key of this disk comes before that of the others, and its storage pool is another one.
	before := ""
	joined := last.with(hcl{"disks": `{
    a    = { pool = "default", size = "1Mi" }
    root = { pool = virtfleet_storage_pool.vms.name, size = "16Mi" }
  }`})
	same := func(s *terraform.State) error {
		if now := entry.FindString(l.Virsh(t, other, "dumpxml", "--inactive", name)); now != before {
			return fmt.Errorf("the definition has %s; want %s", now, before)
		}
		return kept(s)
	}
	story(t, l, []string{name}, resource.TestStep{
		Config:           config(first, ignition("3.4.0", "1")),
		ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		ConfigStateChecks: []statecheck.StateCheck{
			know("ignition.config_wo", knownvalue.Null()), know("status", exactly("Running")),
		},
		Check: is(first, configuration("3.4.0"), file, root),
	}, resource.TestStep{
		Config:      config(first, ignition("3.5.0", "2")),
		ExpectError: regexp.MustCompile(`Change needs a restart`),
	}, updated(first, ignition("3.5.0", "2"), is(first, configuration("3.5.0"), file, root)),
		updated(first, nil, is(first, "", root)),
		updated(first, last, is(first, configuration("3.4.0"), file, root)),
		updated(other, last, kept),
		resource.TestStep{
			PreConfig: func() { before = entry.FindString(l.Virsh(t, other, "dumpxml", "--inactive", name)) },
			Config:    config(other, joined), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: same,
			ConfigStateChecks: []statecheck.StateCheck{know("restart_required", knownvalue.Bool(false))},
		},
		updated(other, joined.with(hcl{"run_strategy": quote("Halted")}), same),
		updated(first, joined.with(hcl{"run_strategy": quote("Halted")}), is(first, configuration("3.4.0"), file, root)),
		resource.TestStep{Config: base, Check: func(*terraform.State) error {
			if left := append(volumes(t, l, first, name), volumes(t, l, other, name)...); len(left) > 0 {
				return fmt.Errorf("left are %q", left)
			}
			return nil
		}})
}

// TestAccVirtualMachine_ignitionInGuest: Ignition itself, in the guest, gets the configuration that is declared, and
// does what it says.
func TestAccVirtualMachine_ignitionInGuest(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	const host = "kvm1"
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+guest(l, name).with(talking).with(hcl{
		"host": quote(host), "memory": `{ size = "192Mi" }`,
		"disks": fmt.Sprintf(`{ tools = { file = %q, read_only = true } }`, l.IgnitionDisk(t, host, name+".img")),
		"ignition": `{
    pool   = "default"
    config = jsonencode({
      ignition = { version = "3.3.0" }
      storage = {
        directories = [{ path = "/srv/data", mode = 448 }]
        files = [
          { path = "/etc/hostname", mode = 420, contents = { source = "data:,web1" } },
          { path = "/etc/note", mode = 384, contents = { source = "data:;base64,ZnJvbSBJZ25pdGlvbg==" } },
        ]
        links = [{ path = "/etc/localtime", target = "../usr/share/zoneinfo/Europe/Berlin" }]
      }
      systemd = { units = [{ name = "web.service", enabled = true, contents = "[Service]\nExecStart=/bin/web\n" }] }
    })
  }`,
	}).String())
	tf.Run(t, "apply")
	// In the order of its units in an initramfs. Last it would label the files for SELinux, which the system lacks.
	said := outputInGuest(t, l, host, name, `until [ -b /dev/vda ]; do sleep 0.1; done
cd / && busybox cpio -i </dev/vda 2>/dev/null
mkdir -p /sysroot/etc
for stage in fetch files; do
	ignition --root=/sysroot --platform=qemu --stage=$stage --log-to-stdout 2>&1 | grep CRITICAL | grep -v relabeling
done
hostname $(cat /sysroot/etc/hostname)
cd /sysroot; hostname; cat etc/note; echo; cat etc/systemd/system/web.service
ls -ld etc/hostname etc/note etc/localtime srv/data | while read -r mode rest; do echo "$mode ${rest##* }"; done`)
	want := `web1
from Ignition
[Service]
ExecStart=/bin/web
-rw-r--r-- etc/hostname
lrwxrwxrwx ../usr/share/zoneinfo/Europe/Berlin
-rw------- etc/note
drwx------ srv/data`
	if said != want {
		t.Errorf("the guest says\n%s\nwant\n%s", said, want)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
