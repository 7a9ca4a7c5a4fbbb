package firststeps_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// example is a directory of examples/ that TestAccFirstSteps applies.
type example struct {
	dir string
	// lab is what the lab has otherwise than the example says, as an override file.
	lab string
	// args are the rest of the command.
	args string
	// then are the arguments of a second apply.
	then string
	// leaves says that all of its VMs are moved away from kvm1, off that none of them is started.
	leaves, off bool
	// rest is what a part of a configuration leaves out.
	rest string
	// refused is what the plan of the whole example says, if the hosts lack what it needs. has is what they have after the
	// apply: words of their VMs, pools and secrets.
	refused, has []string
	// imports is a command of the example's page, which imports of the resource imported what jq makes of its attributes.
	imports, imported, id string
	// before prepares the example's directory and the hosts.
	before func(t *testing.T, dir string)
}

// examples are applied one after the other: their VMs have the same names.
func (u *user) examples() []example {
	const smaller = "resource \"virtfleet_virtual_machine\" \"web\" {\n  memory = { size = \"64Mi\" }\n}\n"
	shared := " -var bridge=br-lab -var directory=" + filepath.Join(u.home, "shared")
	return []example{
		{dir: "bridges-and-vlans", args: ` -var 'bridges={lan="br-lab",vlan20="br-lab"}'`},
		{
			// The directory stands for the mount: the lab has no NFS server.
			dir: "nfs", args: " -var bridge=br-lab -var 'image=" + u.image + "'",
			lab: "resource \"virtfleet_storage_pool\" \"nfs\" {\n  type = \"dir\"\n  shared = true\n  source = null\n" +
				"  target = { path = \"" + filepath.Join(u.home, "nfs") + "\" }\n}\n",
		},
		// The directory stands for storage that the hosts share. Without KVM, to move a VM of 2 GiB takes long. This
		// computer's kernel doesn't allow post-copy to the user that QEMU runs as.
		{
			dir: "change-of-host", args: shared, then: " -var host=kvm2", leaves: true,
			lab: strings.TrimPrefix(provided, required) + strings.TrimSuffix(smaller, "}\n") +
				"  migration_options = { allow_post_copy = false }\n}\n",
		},
		{dir: "rolling-move", args: shared, then: " -var move=again", leaves: true, lab: smaller},
		{dir: "devices/extra-xml"},
		{
			dir: "devices/graphical-console", args: " -var password=secret",
			before: u.hasDisk("/srv/images/desktop.qcow2"),
			has:    []string{"<transient/>", "keymap='de'", "sharePolicy='force-shared'"},
		},
		{dir: "devices/panic-and-watchdog"},
		{dir: "devices/serial-console-log"},
		// Its other VM needs a processor with SEV-SNP.
		{dir: "devices/firmware-and-smbios", args: " -target=virtfleet_virtual_machine.appliance"},
		// The VM has no guest whose agent would answer.
		{
			dir: "data-sources/virtfleet_guest_info", rest: provided, before: u.hasDisk("/var/lib/libvirt/images/web.qcow2"),
			lab: smaller + "data \"virtfleet_guest_info\" \"web\" {\n  wait = \"1s\"\n}\n",
		},
		{
			dir: "resources/virtfleet_image", off: true, before: u.golden,
			rest: provided + "resource \"virtfleet_storage_pool\" \"vms\" {\n  name = \"vms\"\n  type = \"dir\"\n" +
				"  target = { path = \"/srv/vms\" }\n}\n",
			lab: "resource \"virtfleet_image\" \"debian\" {\n  pool = virtfleet_storage_pool.vms.name\n  source = " + u.image +
				"\n}\nresource \"virtfleet_image\" \"golden\" {\n  pool = virtfleet_storage_pool.vms.name\n}\n",
		},
		// Both VMs begin on kvm1. The lab has no NBD server.
		{
			dir: "resources/virtfleet_migration", leaves: true, imported: "virtfleet_migration.web_out",
			imports: "terraform import virtfleet_migration.web_out " +
				"9d7c1f0e-5c3b-4a57-9d0f-6f3c6f8a2b11/3f2a9c0d8e7b6a5f4d3c2b1a09f8e7d6",
			id: `.virtual_machine_id + "/" + .id`, before: u.hasDisk("/srv/images/scratch.qcow2"),
			rest: strings.Replace(provided, "kvm2.example.net/system\"", "kvm2.example.net/system\", schedulable = false", 1),
			lab: strings.TrimSuffix(smaller, "}\n") + "  disks = {}\n  interfaces = { lan = { bridge = \"br-lab\" } }\n}\n" +
				strings.Replace(smaller, "web", "scratch", 1),
		},
	}
}

// hasDisk makes an empty image on kvm1, and its directory on all hosts.
func (u *user) hasDisk(file string) func(*testing.T, string) {
	return func(t *testing.T, _ string) {
		t.Helper()
		for _, h := range u.hosts {
			u.lab.Run(t, h.Name, "mkdir", "-p", filepath.Dir(file))
		}
		u.lab.Run(t, u.hosts["kvm1"].Name, "qemu-img", "create", "-q", "-f", "qcow2", file, "1M")
	}
}

// golden makes a compressed image of the user's own: the lab's guest.
func (u *user) golden(t *testing.T, dir string) {
	t.Helper()
	file, err := u.lab.GuestImage()
	if err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		t.Fatal(err)
	}
	u.write(t, filepath.Join(dir, "golden.qcow2.zst"), string(w.EncodeAll(image, nil)), 0o644)
}

// lookedUp are the examples of data sources that are applied while the first VM runs.
var lookedUp = []string{
	"data-sources/virtfleet_conditions", "data-sources/virtfleet_domain_stats", "data-sources/virtfleet_evacuation_plan",
	"data-sources/virtfleet_host", "data-sources/virtfleet_hosts", "data-sources/virtfleet_migration_candidates",
	"data-sources/virtfleet_virtual_machines",
}

// off is an example whose VMs are created and not started, because the lab lacks a server, a device or a program that
// they need to run.
type off struct {
	// set are its variables, lab is what the lab has otherwise than the example says, as an override file.
	set, lab string
	// files are on the hosts.
	files []string
}

// theImage stands for the image that the lab serves.
const theImage = "<image>"

var definedOff = map[string]off{
	"devices/accelerated-graphics": {},
	"devices/consoles-and-usb":     {},
	"devices/host-device": {
		lab: "resource \"virtfleet_virtual_machine\" \"render\" {\n  memory = { size = \"2Gi\" }\n}\n",
	},
	"devices/memory-and-vsock": {},
	"devices/shared-directory": {},
	// Hyper-V's features, of which the example turns one off, need KVM.
	"devices/windows": {
		lab: "resource \"virtfleet_virtual_machine\" \"windows\" {\n  type = \"qemu\"\n" +
			"  memory = { size = \"2Gi\" }\n  platform = { clock = { offset = \"utc\" } }\n}\n",
		files: []string{"/srv/iso/windows-11.iso"},
	},
	"ignition": {set: "image = " + theImage + "\n  ssh_public_key = \"ssh-ed25519 AAAA\"\n  password_hash = \"$y$j9T$x\""},
	"resources/virtfleet_virtual_machine": {
		set:   "password_hash = \"$y$j9T$x\"\n  passphrase = \"correct horse\"",
		lab:   "resource \"virtfleet_virtual_machine\" \"lab\" {\n  type = \"qemu\"\n  deletion_protection = false\n}\n",
		files: []string{"/srv/iso/debian.iso", "/srv/boot/vmlinuz", "/srv/boot/initrd.img"},
	},
}

// byAnother are the examples that another test, or the demo of "make test", applies, by the file that names them.
var byAnother = map[string]string{
	"demo":                "internal/lab/demo/demo.go",
	"first-vm":            "internal/provider/firststeps/acc_test.go",
	"is-my-vm-alive":      "internal/provider/firststeps/acc_test.go",
	"modules/vm":          "internal/provider/virtualmachine/acc_module_test.go",
	"rolling-maintenance": "internal/provider/hostmaintenance/acc_rolling_test.go",

	"resources/virtfleet_eviction_policy":   referencesTest,
	"resources/virtfleet_host_maintenance":  referencesTest,
	"resources/virtfleet_migration_policy":  referencesTest,
	"resources/virtfleet_network":           referencesTest,
	"resources/virtfleet_network_dhcp_host": referencesTest,
	"resources/virtfleet_network_filter":    referencesTest,
	"resources/virtfleet_secret":            referencesTest,
	"resources/virtfleet_volume":            referencesTest,
}

const referencesTest = "internal/provider/firststeps/references_test.go"

// applies has each example made, found unchanged, and removed.
func (u *user) applies(t *testing.T) {
	t.Helper()
	u.hasHost(t, "kvm3")
	u.connects(t, "kvm3")
	for _, e := range slices.Concat(u.examples(), u.onServers(), u.ofHardware()) {
		name := "example-" + strings.ReplaceAll(e.dir, "/", "-")
		dir := u.directory(t, name, e.dir)
		u.write(t, filepath.Join(name, "main.tf"), e.rest, 0o644)
		u.does(t, dir, initialise, "")
		if e.refused != nil {
			u.refuses(t, e, dir)
		}
		u.write(t, filepath.Join(name, "this_override.tf"), e.lab, 0o644)
		if e.before != nil {
			e.before(t, name)
		}
		applied := u.does(t, dir, apply+" -auto-approve"+e.args, "")
		if e.then != "" {
			e.args += e.then
			applied = u.does(t, dir, apply+" -auto-approve"+e.args, "")
		}
		if e.leaves {
			if left := u.lab.Virsh(t, u.hosts["kvm1"].Name, "list", "--name"); strings.TrimSpace(left) != "" {
				t.Errorf("%s, the last apply:\n%s\nand kvm1 still has %s", e.dir, applied, left)
			}
		}
		if e.imports != "" {
			u.importsOf(t, dir, e.imported, e.id, e.imports)
			// What the configuration says of it isn't known yet.
			u.does(t, dir, apply+" -auto-approve"+e.args, "")
		}
		if said := u.does(t, dir, plan+e.args, ""); !strings.Contains(said, "No changes.") {
			t.Errorf("%s, the apply:\n%s\nand the plan after it:\n%s", e.dir, applied, said)
		}
		if e.has != nil {
			u.finds(t, e)
		}
		if !e.off {
			u.powersOff(t, e.dir)
		}
		u.does(t, dir, "terraform destroy -auto-approve"+e.args, "")
	}
}

// powersOff ends all VMs, which have no guest that would shut down. There has to be one.
func (u *user) powersOff(t *testing.T, of string) {
	t.Helper()
	running := 0
	for _, h := range u.hosts {
		for _, vm := range strings.Fields(u.lab.Virsh(t, h.Name, "list", "--name")) {
			running++
			u.lab.Virsh(t, h.Name, "destroy", vm)
		}
	}
	if running == 0 {
		t.Errorf("%s: no VM runs", of)
	}
}

// looksUp applies the examples of data sources.
func (u *user) looksUp(t *testing.T) {
	t.Helper()
	for _, e := range lookedUp {
		dir := u.directory(t, e, e)
		u.write(t, filepath.Join(e, "main.tf"), provided, 0o644)
		u.does(t, dir, initialise, "")
		u.does(t, dir, apply+" -auto-approve", "")
	}
}

var vms = regexp.MustCompile(`(?m)^resource "virtfleet_virtual_machine" "(\w+)" \{\n  name += "([\w-]+)"`)

// defines creates the VMs of examples that can't run here, as modules of one configuration, and removes them.
func (u *user) defines(t *testing.T) {
	t.Helper()
	dir := u.directory(t, "off")
	config, names := provided, []string{}
	for e, o := range definedOff {
		module := strings.ReplaceAll(e, "/", "-")
		names = append(names, u.module(t, filepath.Join("off", module), e, o)...)
		config += fmt.Sprintf("module %q {\n  source = \"./%[1]s\"\n  %s\n}\n", module,
			strings.ReplaceAll(o.set, theImage, u.image))
		for _, h := range u.hosts {
			for _, file := range o.files {
				u.lab.Run(t, h.Name, "install", "-D", "/dev/null", file)
			}
		}
	}
	u.write(t, "off/main.tf", config, 0o644)
	u.does(t, dir, initialise, "")
	applied := u.does(t, dir, apply+" -auto-approve", "")
	have := ""
	for _, h := range u.hosts {
		have += u.lab.Virsh(t, h.Name, "list", "--all", "--name")
	}
	for _, name := range names {
		if !slices.Contains(strings.Fields(have), name) {
			t.Errorf("no host has the VM %s:\n%s", name, applied)
		}
	}
	if said := u.does(t, dir, plan, ""); !strings.Contains(said, "No changes.") {
		t.Errorf("the apply:\n%s\nand the plan after it:\n%s", applied, said)
	}
	u.does(t, dir, "terraform destroy -auto-approve", "")
}

var ofProvider = regexp.MustCompile(`(?ms)^provider "virtfleet" \{$.*?^\}$`)

// module makes a module of an example, without its provider block, and returns the names of its VMs. They are Halted,
// and have names of their own, because some examples have a VM of one name.
func (u *user) module(t *testing.T, dir, e string, o off) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "examples", e, "*.tf"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %q %v", e, files, err)
	}
	example, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text := u.here(t, string(example))
	if !strings.Contains(text, "required_providers") {
		text = required + text
	}
	u.write(t, filepath.Join(dir, "main.tf"), ofProvider.ReplaceAllString(text, ""), 0o644)
	override := o.lab
	for _, vm := range vms.FindAllStringSubmatch(text, -1) {
		name := strings.ReplaceAll(e, "/", "-") + "-" + vm[2]
		override += fmt.Sprintf("resource \"virtfleet_virtual_machine\" %q {\n  name = %q\n  run_strategy = \"Halted\"\n}\n",
			vm[1], name)
		names = append(names, name)
	}
	u.write(t, filepath.Join(dir, "this_override.tf"), override, 0o644)
	return names
}

var imageOfPage = regexp.MustCompile(`vms/debian-12-[0-9a-f]{12}`)

// here replaces what the lab has under another name, and less of: a bridge, the image that the first VM's example has
// brought, and room for a thick disk.
func (u *user) here(t *testing.T, text string) string {
	t.Helper()
	for _, word := range strings.Fields(u.lab.Virsh(t, u.hosts["kvm1"].Name, "vol-list", "vms")) {
		if id := "vms/" + word; imageOfPage.MatchString(id) {
			return strings.NewReplacer(`"100Gi"`, `"1Mi"`, `"br0"`, `"br-lab"`).Replace(imageOfPage.ReplaceAllString(text, id))
		}
	}
	t.Fatal("kvm1 has no image")
	return ""
}

// TestExamples_areApplied: each example is applied by a test.
func TestExamples_areApplied(t *testing.T) {
	t.Parallel()
	times := map[string]int{}
	for _, e := range slices.Concat((&user{}).examples(), (&user{}).onServers(), (&user{}).ofHardware()) {
		times[e.dir]++
	}
	for _, e := range lookedUp {
		times[e]++
	}
	for e := range definedOff {
		times[e]++
	}
	for e, path := range byAnother {
		times[e]++
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !strings.Contains(string(text), e) {
			t.Errorf("%s doesn't apply %s (%v)", path, e, err)
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "examples/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := os.DirFS(filepath.Join(root, "examples"))
	err = fs.WalkDir(examples, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".tf" {
			return err
		}
		dir := filepath.Dir(path)
		if times[dir] != 1 && times[dir] != seen {
			t.Errorf("examples/%s is applied by one test, not by %d", dir, times[dir])
		}
		times[dir] = seen
		top, _, _ := strings.Cut(dir, "/")
		ofPages := top == "provider" || top == "resources" || top == "data-sources"
		if !ofPages && !strings.Contains(string(readme), "]("+dir+")") {
			t.Errorf("examples/README.md doesn't list %s", dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for e, n := range times {
		if n != seen {
			t.Errorf("there is no examples/%s", e)
		}
	}
}

// seen marks an example that exists.
const seen = -1
