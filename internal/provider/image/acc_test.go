package image_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	"github.com/kdomanski/iso9660"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "virtfleet_image.this"

// qcow2 makes an image with some content, and returns the file.
func qcow2(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	raw, file := filepath.Join(dir, "raw"), filepath.Join(dir, "disk.img") // The name says nothing.
	if err := os.WriteFile(raw, bytes.Repeat([]byte(t.Name()), 50_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(raw, 32<<20); err != nil {
		t.Fatal(err)
	}
	run(t, append([]string{"convert", "-f", "raw", "-O", "qcow2"}, append(args, raw, file)...)...)
	return file
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "qemu-img", args...).CombinedOutput(); err != nil {
		t.Fatalf("qemu-img %v: %v\n%s", args, err, out)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func compressed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// serve serves files, by their paths.
func serve(t *testing.T, files map[string][]byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(data)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func sum256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// volumes are the names of what is in a host's pool.
func volumes(t *testing.T, l *lab.Lab, host, pool string) []string {
	t.Helper()
	l.Virsh(t, host, "pool-refresh", pool)
	var names []string
	for _, line := range strings.Split(l.Virsh(t, host, "vol-list", pool), "\n") {
		if fields := strings.Fields(line); len(fields) == 2 && strings.HasPrefix(fields[1], "/") {
			names = append(names, fields[0])
		}
	}
	return names
}

// pool is a pool of the test's own on the lab's first two hosts.
func pool(name, more string) string {
	return fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %[1]q
  type   = "dir"
  target = { path = "/var/lib/libvirt/%[1]s" }
  %[2]s
}
`, name, more)
}

func image(source, more string) string {
	return fmt.Sprintf(`
resource "virtfleet_image" "this" {
  name   = "base"
  pool   = virtfleet_storage_pool.this.name
  source = { %s }
  %s
}
`, source, more)
}

// clean removes the directories of a pool, and fails if the pool or something in it is left.
func clean(t *testing.T, l *lab.Lab, name string, hosts ...string) resource.TestCheckFunc {
	t.Helper()
	return func(*terraform.State) error {
		for _, host := range hosts {
			if l.Has(t, host, "pool-list", name) {
				return fmt.Errorf("host %s still has pool %s", host, name)
			}
			l.Run(t, host, "rmdir", "/var/lib/libvirt/"+name)
		}
		return nil
	}
}

// TestAccImage: an image is checked, decompressed, on every host that has the pool, repaired where its copy is gone or
// half, and other content is another copy.
func TestAccImage(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	// While a VM has files in a pool that can't be read, volumes of its host can't be removed.
	one, two := l.StartHost(t), l.StartHost(t)
	block := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: one}, {Of: two}}}.String()
	name := lab.Name(t)
	byHand := name + "-by-hand"
	disk := "/var/lib/libvirt/" + byHand + "/disk"
	first, second := read(t, qcow2(t)), read(t, qcow2(t, "-c"))
	packed := compressed(t, first)
	sum512 := sha512.Sum512(packed)
	url := serve(t, map[string][]byte{
		"/one.gz": packed, "/two": second,
		"/SHA512SUMS": []byte(hex.EncodeToString(sum512[:]) + "  one.gz\n"),
	})
	volume := "base-" + sum256(first)[:12]
	other := "base-" + sum256(second)[:12]
	ofOne := fmt.Sprintf("url = \"%[1]s/one.gz\", checksum = \"%[1]s/SHA512SUMS\"", url)
	ofTwo := fmt.Sprintf("url = \"%s/two\", checksum = \"sha256:%s\"", url, sum256(second))
	present := func(hosts ...string) statecheck.StateCheck {
		want := map[string]knownvalue.Check{}
		for _, h := range hosts {
			want[h] = knownvalue.StringExact("present")
		}
		return statecheck.ExpectKnownValue(address, tfjsonpath.New("host_states"), knownvalue.MapExact(want))
	}
	// whole compares a copy with the content, bit by bit.
	whole := func(name, volume string, content []byte, hosts ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			for _, host := range hosts {
				file := "/var/lib/libvirt/" + name + "/" + volume
				if got := strings.Fields(l.Run(t, host, "sha256sum", file))[0]; got != sum256(content) {
					return fmt.Errorf("the copy of host %s has %s", host, got)
				}
				if all := volumes(t, l, host, name); len(all) != 1 || all[0] != volume {
					return fmt.Errorf("host %s has %v", host, all)
				}
				if xml := l.Virsh(t, host, "vol-dumpxml", "--pool", name, volume); !strings.Contains(xml, "type='qcow2'") {
					return fmt.Errorf("host %s says %s", host, xml)
				}
			}
			return nil
		}
	}
	update := plancheck.ResourceActionUpdate
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy:             clean(t, l, name, one.Name, two.Name),
		Steps: []resource.TestStep{
			{
				Config: block + pool(name, fmt.Sprintf("hosts = [%q]", one.Name)) + image(
					fmt.Sprintf("url = \"%s/one.gz\", checksum = \"sha256:%s\"", url, sum256(first)), ""),
				ExpectError: regexp.MustCompile(`checksum\s+differs`),
			},
			// What has another checksum leaves nothing: the pool of that step has no file.
			{
				PreConfig: func() {
					at := "/var/lib/libvirt/" + name
					if all := strings.TrimSpace(l.Run(t, one.Name, "ls", "-A", at)); all != "" {
						t.Errorf("host %s has %s", one.Name, all)
					}
					if all := volumes(t, l, one.Name, name); len(all) != 0 {
						t.Errorf("host %s has %v", one.Name, all)
					}
					l.Run(t, two.Name, "test", "!", "-e", at)
				},
				Config: block + pool(name, fmt.Sprintf("hosts = [%q]", one.Name)) + image(ofOne, ""),
				Check:  whole(name, volume, first, one.Name),
				ConfigStateChecks: []statecheck.StateCheck{
					present(one.Name),
					statecheck.ExpectKnownValue(address, tfjsonpath.New("id"), knownvalue.StringExact(name+"/"+volume)),
					statecheck.ExpectKnownValue(address, tfjsonpath.New("format"), knownvalue.StringExact("qcow2")),
					statecheck.ExpectKnownValue(address, tfjsonpath.New("virtual_size"), knownvalue.StringExact("32Mi")),
				},
			},
			// Where the pool goes, the image goes in the same apply.
			{
				Config:           block + pool(name, "") + image(ofOne, ""),
				ConfigPlanChecks: acctest.Action(address, update), Check: whole(name, volume, first, one.Name, two.Name),
				ConfigStateChecks: []statecheck.StateCheck{present(one.Name, two.Name)},
			},
			// Without hosts, it is on each host with the pool, also right after it was on some.
			{
				Config:           block + pool(name, "") + image(ofOne, fmt.Sprintf("hosts = [%q]", one.Name)),
				ConfigPlanChecks: acctest.Action(address, update), Check: whole(name, volume, first, one.Name),
			},
			{
				Config:           block + pool(name, "") + image(ofOne, ""),
				ConfigPlanChecks: acctest.Action(address, update), Check: whole(name, volume, first, one.Name, two.Name),
				ConfigStateChecks: []statecheck.StateCheck{present(one.Name, two.Name)},
			},
			// A pool that isn't active says nothing of what is in it.
			{
				PreConfig:        func() { l.Virsh(t, one.Name, "pool-destroy", name) },
				Config:           block + pool(name, "") + image(ofOne, ""),
				ConfigPlanChecks: acctest.Action(address, plancheck.ResourceActionNoop),
				Check:            whole(name, volume, first, one.Name, two.Name),
			},
			// One copy is removed, the other is what a killed upload leaves: as long as it should be, without its header.
			{
				PreConfig: func() {
					l.Virsh(t, one.Name, "vol-delete", "--pool", name, volume)
					l.Run(t, two.Name, "dd", "if=/dev/zero", "of=/var/lib/libvirt/"+name+"/"+volume, "bs=64k", "count=4",
						"conv=notrunc", "status=none")
				},
				Config:           block + pool(name, "") + image(ofOne, ""),
				ConfigPlanChecks: acctest.Action(address, update), Check: whole(name, volume, first, one.Name, two.Name),
			},
			{
				ResourceName: address, ImportState: true, ImportStateId: name + "/" + volume, ImportStateVerify: true,
				ImportStateVerifyIgnore: []string{"source", "sha256", "timeouts"},
			},
			// Other content is another copy. The old one stays for as long as a disk is based on it: a volume, or a file of a VM
			// that is off, which a user has created in a pool without libvirt.
			{
				PreConfig: func() {
					l.Virsh(t, one.Name, "pool-create-as", byHand, "dir", "--target", filepath.Dir(disk), "--build")
					l.Run(t, one.Name, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2",
						"-b", "/var/lib/libvirt/"+name+"/"+volume, disk)
					l.Define(t, one.Name, `<domain type="qemu"><name>`+byHand+`</name><memory unit="MiB">64</memory>`+
						`<os><type arch="x86_64" machine="q35">hvm</type></os><devices><disk type="file" device="disk">`+
						`<driver name="qemu" type="qcow2"/><source file="`+disk+`"/><target dev="vda"/></disk>`+
						`<disk type="file" device="cdrom"><source file="`+filepath.Dir(disk)+`/missing.iso"/><target dev="sda"/>`+
						`</disk></devices></domain>`)
					l.Virsh(t, two.Name, "vol-create-as", name, "overlay", "64M", "--format", "qcow2", "--backing-vol", volume,
						"--backing-vol-format", "qcow2")
				},
				Config:           block + pool(name, "") + image(ofTwo, ""),
				ConfigPlanChecks: acctest.Action(address, update),
				ConfigStateChecks: []statecheck.StateCheck{
					present(one.Name, two.Name),
					statecheck.ExpectKnownValue(address, tfjsonpath.New("superseded"),
						knownvalue.ListExact([]knownvalue.Check{knownvalue.StringExact(volume)})),
				},
				Check: func(*terraform.State) error {
					if all := volumes(t, l, two.Name, name); len(all) != 3 {
						return fmt.Errorf("host %s has %v", two.Name, all)
					}
					if all := volumes(t, l, one.Name, name); len(all) != 2 {
						return fmt.Errorf("host %s has %v", one.Name, all)
					}
					return nil
				},
			},
			// It also stays if the pool of that file can't be read: libvirt then stops the pool, and forgets the file.
			{
				PreConfig: func() {
					l.Virsh(t, two.Name, "vol-delete", "--pool", name, "overlay")
					l.Run(t, one.Name, "mv", filepath.Dir(disk), filepath.Dir(disk)+"-away")
				},
				Config:           block + pool(name, "") + image(ofTwo, ""),
				ConfigPlanChecks: acctest.Action(address, update),
				Check: func(*terraform.State) error {
					if all := volumes(t, l, one.Name, name); len(all) != 2 {
						return fmt.Errorf("host %s has %v", one.Name, all)
					}
					l.Run(t, one.Name, "mv", filepath.Dir(disk)+"-away", filepath.Dir(disk))
					l.Virsh(t, one.Name, "pool-create-as", byHand, "dir", "--target", filepath.Dir(disk))
					return nil
				},
			},
			{
				PreConfig: func() {
					l.Virsh(t, one.Name, "undefine", byHand)
					l.Virsh(t, one.Name, "vol-delete", "--pool", byHand, "disk")
					l.Virsh(t, one.Name, "pool-destroy", byHand)
				},
				Config:           block + pool(name, "") + image(ofTwo, ""),
				ConfigPlanChecks: acctest.Action(address, update), Check: whole(name, other, second, one.Name, two.Name),
			},
			// A host that is taken away keeps its copy while a disk is based on it.
			{
				PreConfig: func() {
					l.Virsh(t, one.Name, "vol-create-as", name, "overlay", "64M", "--format", "qcow2", "--backing-vol", other,
						"--backing-vol-format", "qcow2")
				},
				Config:      block + pool(name, "") + image(ofTwo, fmt.Sprintf("hosts = [%q]", two.Name)),
				ExpectError: regexp.MustCompile(`(?s)Unable to remove image.*based\s+on\s+it`),
			},
			// Otherwise it loses its copy.
			{
				PreConfig: func() {
					l.Virsh(t, one.Name, "vol-delete", "--pool", name, "overlay")
					if err := whole(name, other, second, one.Name, two.Name)(nil); err != nil {
						t.Error(err)
					}
				},
				Config:           block + pool(name, "") + image(ofTwo, fmt.Sprintf("hosts = [%q]", two.Name)),
				ConfigPlanChecks: acctest.Action(address, update),
				Check: func(*terraform.State) error {
					if all := volumes(t, l, one.Name, name); len(all) != 0 {
						return fmt.Errorf("host %s has %v", one.Name, all)
					}
					return whole(name, other, second, two.Name)(nil)
				},
			},
		},
	})
}

// TestAccImage_refused: what would have a host read other files, or doesn't fit, is no image.
func TestAccImage_refused(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	plain := qcow2(t)
	based := filepath.Join(filepath.Dir(plain), "based")
	run(t, "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", plain, based)
	external := filepath.Join(filepath.Dir(plain), "external")
	run(t, "create", "-q", "-f", "qcow2", "-o", "data_file="+external+".data", external, "1M")
	vmdk := filepath.Join(filepath.Dir(plain), "vmdk")
	run(t, "create", "-q", "-f", "vmdk", vmdk, "1M")
	step := func(source, want string) resource.TestStep {
		return resource.TestStep{
			Config:      acctest.OneHost(l) + pool(name, `hosts = ["kvm1"]`) + image(source, ""),
			ExpectError: regexp.MustCompile(want),
		}
	}
	file := func(path string) string { return fmt.Sprintf("file = %q", path) }
	at := "/var/lib/libvirt/" + name
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0) // It would say that a client refuses it.
	server.StartTLS()
	t.Cleanup(server.Close)
	full := step(file(plain), `bytes\s+left`)
	full.PreConfig = func() { l.Run(t, "kvm1", "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", at) }
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy:             clean(t, l, name, "kvm1"),
		Steps: []resource.TestStep{
			step(file(plain)+`, checksum = "md5:1234"`, `Invalid\s+checksum`),
			step(file(plain)+`, url = "https://example.net/x"`, `one\s+\(and\s+only\s+one\)`),
			step(file(based), `is\s+based\s+on`),
			step(file(external), `another\s+file`),
			step(file(vmdk), `qemu-img\s+convert`),
			step(file("/nonexistent"), `no\s+such\s+file`),
			step(fmt.Sprintf("url = %q", server.URL), `(?s)certificate\s+signed\s+by\s+unknown\s+authority.*SSL_CERT_FILE`),
			full,
			{Config: acctest.OneHost(l) + pool(name, `hosts = ["kvm1"]`), Check: func(*terraform.State) error {
				all := volumes(t, l, "kvm1", name)
				l.Run(t, "kvm1", "umount", at)
				if len(all) != 0 {
					return fmt.Errorf("left on host kvm1: %v", all)
				}
				return nil
			}},
		},
	})
}

// TestImage_notOfADisk: an HTML page that a server sends in place of a file is no image, whether a plan finds it in a
// local file or an apply in a download. Of other content that is hardly a disk's, plan and apply warn.
func TestImage_notOfADisk(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	const page, text = "\n <!DOCTYPE html>\n<html><body>Log in</body></html>\n", "hello\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served := map[string]string{"/page": page, "/text": text, "/cut": strings.Repeat("x", 1000)}
		_, _ = io.WriteString(w, served[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "disk.raw")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("file = %q", path)
	}
	url := func(path string) string { return fmt.Sprintf("url = %q", server.URL+path) }
	config := func(source string) string {
		return acctest.Local("") + fmt.Sprintf("resource \"virtfleet_image\" \"this\" {\nname = \"base\"\n"+
			"pool = \"default-pool\"\nsource = { %s }\n}\n", source)
	}
	const odd = "Image may not be one of a disk"
	tf := acctest.NewCLI(t)
	for _, tt := range []struct {
		command, source, want string
		fails                 bool // The test driver accepts no uploads.
	}{
		{"plan", file(page), "an HTML page", true},
		{"apply", url("/page"), "an HTML page", true},
		{"plan", file(text), "less than one sector", false},
		{"apply", url("/text"), odd, true},
		{"apply", url("/cut"), "isn't a multiple of the 512 bytes", true},
	} {
		tf.Config(t, config(tt.source))
		out, err := tf.Try(t, tt.command)
		if !strings.Contains(out, tt.want) || (err != nil) != tt.fails {
			t.Errorf("%s of %s: %v, want %q: %s", tt.command, tt.source, err, tt.want, out)
		}
		if refused := strings.Contains(out, "this is no disk image"); refused != (tt.want == "an HTML page") {
			t.Errorf("%s of %s is refused: %t: %s", tt.command, tt.source, refused, out)
		}
	}
	tf.Config(t, config(file(strings.Repeat("x", 1024))))
	if out := tf.Run(t, "plan"); strings.Contains(out, odd) {
		t.Errorf("a plan warns of an image of two sectors: %s", out)
	}
}

// TestImage_formatOfPool: a pool whose volumes are raw gets no qcow2 image. The plan says so for a local file, and the
// apply for a download of which the server has sent only the beginning. A plan knows the pool of the same apply, and
// refuses one that no host has or gets.
func TestImage_formatOfPool(t *testing.T) {
	t.Parallel()
	acctest.NeedsTerraform(t)
	node := filepath.Join(t.TempDir(), "node.xml")
	if err := os.WriteFile(node, []byte(`<node><pool type="logical"><name>vg</name><source><name>vg</name></source>`+
		`<target><path>/dev/vg</path></target></pool></node>`), 0o600); err != nil {
		t.Fatal(err)
	}
	raw, file := filepath.Join(t.TempDir(), "raw"), filepath.Join(t.TempDir(), "packed")
	run(t, "create", "-q", "-f", "raw", raw, "1M")
	run(t, "create", "-q", "-f", "qcow2", file+".qcow2", "1M")
	header := read(t, file+".qcow2")
	if err := os.WriteFile(file, compressed(t, header), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(append(header, make([]byte, 1<<20)...))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	config := func(source string) string {
		return fmt.Sprintf(`
provider "virtfleet" {
  hosts = { local = { uri = "test://%s" } }
}

resource "virtfleet_image" "this" {
  name   = "base"
  pool   = "vg"
  source = { %s }
}
`, node, source)
	}
	inPool := func(name, kind, file string) string {
		text := strings.Replace(config(fmt.Sprintf("file = %q", file)), `"vg"`, strconv.Quote(name), 1)
		if kind == "" {
			return text
		}
		return strings.Replace(text, strconv.Quote(name), "virtfleet_storage_pool.this.name", 1) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %q
  type   = %q
  source = { name = "vg", hosts = [{ name = "san.example.net" }], devices = ["iqn.2026-01.net.example:vms"] }
  target = { path = "/srv/vms" }
}
`, name, kind)
	}
	onUnknown := func(pool string) string { // Which hosts get the pool isn't known before the apply.
		return strings.Replace(pool, "  source = { name", "  hosts  = terraform_data.hosts.output\n  source = { name", 1) +
			"resource \"terraform_data\" \"hosts\" {\n  input = [\"local\"]\n}\n"
	}
	planned := regexp.MustCompile(`(?s)"new"\s+is\s+of\s+type\s+logical.*image\s+is\s+qcow2;\s+convert\s+it`)
	absent := regexp.MustCompile(`(?s)storage\s+pool\s+"absent".\s+There\s+is\s+vg.*Correct\s+pool`)
	// libvirt can't upload to these, whatever the format, which the plan doesn't know here.
	cannot := func(kind, remedy string) resource.TestStep {
		return resource.TestStep{
			Config: inPool("new", kind, raw+".later"), PlanOnly: true,
			ExpectError: regexp.MustCompile(`(?s)"new"\s+is\s+of\s+type\s+` + kind + `.*` + remedy),
		}
	}
	refused := regexp.MustCompile(`(?s)"vg"\s+is\s+of\s+type\s+logical.*image\s+is\s+qcow2;\s+convert\s+it`)
	resource.UnitTest(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		Steps: []resource.TestStep{
			{Config: config(fmt.Sprintf("file = %q", file)), ExpectError: refused, PlanOnly: true},
			{Config: config(fmt.Sprintf("file = %q", file+".qcow2")), ExpectError: refused, PlanOnly: true},
			{Config: config(fmt.Sprintf("file = %q", raw)), ExpectNonEmptyPlan: true, PlanOnly: true},
			{Config: config(fmt.Sprintf("file = %q", raw+".later")), ExpectNonEmptyPlan: true, PlanOnly: true},
			{Config: config(fmt.Sprintf("url = %q", server.URL)), ExpectError: refused},
			// The plan goes by the pool that the apply creates, whatever the host has.
			{Config: inPool("new", "logical", file), ExpectError: planned, PlanOnly: true},
			cannot("rbd", `virtfleet_volume\s+in\s+this\s+pool.*clone\s+=\s+"full"`), cannot("iscsi", `dir,\s+fs`),
			{Config: inPool("new", "dir", file), ExpectNonEmptyPlan: true, PlanOnly: true},
			{Config: inPool("vg", "dir", file), ExpectNonEmptyPlan: true, PlanOnly: true},
			{Config: onUnknown(inPool("later", "dir", file)), ExpectNonEmptyPlan: true, PlanOnly: true},
			{Config: inPool("absent", "", file), ExpectError: absent, PlanOnly: true},
		},
	})
}

// uploading matches the records of an upload in Terraform's log. Terraform writes the fields of a record in any order.
var uploading = regexp.MustCompile(`uploading an image:.*`)

// sentBytes matches the number of bytes in such a record.
var sentBytes = regexp.MustCompile(` bytes=(\d+)`)

// sent returns how much an upload sent, as its last record in Terraform's log says, with the rate and
// the time that is left.
func sent(t *testing.T, log string) int {
	t.Helper()
	for _, record := range uploading.FindAllString(string(read(t, log)), -1) {
		bytes := sentBytes.FindStringSubmatch(record)
		if strings.Contains(record, " percent=100") && strings.Contains(record, " bytes_per_second=") &&
			strings.Contains(record, " left=") && bytes != nil {
			n, err := strconv.Atoi(bytes[1])
			if err != nil {
				t.Error(err)
			}
			return n
		}
	}
	t.Error("the log doesn't say how much of the image is sent")
	return 0
}

// TestAccImage_brokenOff: an upload whose connection is cut, or whose provider is killed, leaves nothing that is taken
// for the image. The upload continues where it stopped: at once if the host can be reached again, otherwise with the
// next apply. What was altered meanwhile is sent again from the beginning. A pool that becomes full in the middle of an
// upload keeps nothing of it.
func TestAccImage_brokenOff(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	// What can't be compressed, so that it takes its time.
	file := filepath.Join(t.TempDir(), "raw")
	run(t, "create", "-q", "-f", "raw", file, "64M")
	content := read(t, file)
	for i := range content[:48<<20] {
		content[i+8<<20] = byte(i*i>>7 | 1)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	at := "/var/lib/libvirt/" + name
	volume := "base-" + sum256(content)[:12]
	// Half of it has arrived.
	halfway := func() bool {
		files, _ := filepath.Glob(l.Host("kvm1").Path(at) + "/base-*")
		for _, file := range files {
			var is syscall.Stat_t
			if syscall.Stat(file, &is) == nil && is.Blocks*512 > 16<<20 {
				return true
			}
		}
		return false
	}
	config := func(host acctest.Host, more string) string {
		host.Of = l.Host("kvm1")
		return acctest.Block{Lab: l, Hosts: []acctest.Host{host}}.String() + pool(name, "") +
			image(fmt.Sprintf("file = %q", file), more)
	}
	// throughGate is a host whose connection goes silent as soon as half of the image is there.
	hostAt := func(gate *lab.Proxy) acctest.Host {
		return acctest.Host{
			URI: gate.URI(), Settings: fmt.Sprintf("ssh = { known_hosts_file = %q }", gate.KnownHostsFile),
		}
	}
	throughGate := func() acctest.Host { return hostAt(l.Gate(t, "kvm1", halfway)) }
	c := acctest.NewCLI(t)
	c.Config(t, config(acctest.Host{}, ""))
	c.Run(t, "apply", "-target=virtfleet_storage_pool.this")
	fillsUp(t, l, c, name, func(gate *lab.Proxy) string { return config(hostAt(gate), "") })
	// The connection goes silent in the middle: what is there is half, and can't be removed.
	c.Config(t, config(throughGate(), `timeouts = { create = "1m" }`))
	out := c.Fail(t, "apply")
	if !strings.Contains(out, "Unable to create image") {
		t.Errorf("unexpected: %s", out)
	}
	if all := volumes(t, l, "kvm1", name); len(all) != 1 || all[0] != volume {
		t.Fatalf("host kvm1 has %v; the upload should have been broken off", all)
	}
	// A disk isn't based on it, nor copied from it.
	disk := func(clone string) string {
		return config(acctest.Host{}, "") + fmt.Sprintf(`
resource "virtfleet_volume" "disk" {
  name  = "disk"
  pool  = %[1]q
  host  = "kvm1"
  image = "%[1]s/%[2]s"
  clone = %[3]q
}
`, name, volume, clone)
	}
	for _, clone := range []string{"overlay", "full"} {
		c.Config(t, disk(clone))
		out := c.Fail(t, "apply", "-target=virtfleet_volume.disk")
		if !strings.Contains(strings.Join(strings.Fields(out), " "), "an incomplete copy of an image") {
			t.Errorf("unexpected: %s", out)
		}
	}
	if all := volumes(t, l, "kvm1", name); len(all) != 1 {
		t.Errorf("host kvm1 has %v", all)
	}
	copied := func(most int) {
		t.Helper()
		log := c.Trace()
		if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) { // Terraform appends to it.
			t.Error(err)
		}
		c.Run(t, "apply")
		if n := sent(t, log); n > most {
			t.Errorf("%d bytes of the image were sent, expected are at most %d", n, most)
		}
		if got := strings.Fields(l.Run(t, "kvm1", "sha256sum", at+"/"+volume))[0]; got != sum256(content) {
			t.Errorf("the copy has %s", got)
		}
		if kib := strings.Fields(l.Run(t, "kvm1", "du", "-k", at+"/"+volume))[0]; len(kib) > 5 || kib > "50000" {
			t.Errorf("a sparse image takes %s KiB", kib)
		}
	}
	const rest = 48 << 20 // Of 64 MiB, at least 16 had arrived.
	// What is there isn't what was sent.
	l.Run(t, "kvm1", "dd", "if=/dev/zero", "of="+at+"/"+volume, "bs=1", "count=1", "seek=20M", "conv=notrunc",
		"status=none")
	c.Config(t, config(acctest.Host{}, ""))
	copied(len(content))
	// The connection is cut in the middle, and the host can be reached again.
	l.Virsh(t, "kvm1", "vol-delete", "--pool", name, volume)
	cut := make(chan struct{})
	once := sync.OnceFunc(func() { close(cut) })
	gate := l.Gate(t, "kvm1", func() bool {
		if halfway() {
			once()
		}
		return false
	})
	go func() {
		<-cut
		gate.Cut()
		gate.Restore()
	}()
	c.Config(t, config(hostAt(gate), ""))
	copied(rest)
	once()
	// A killed provider has no time to remove anything. The gate keeps it from being done before it is killed.
	l.Virsh(t, "kvm1", "vol-delete", "--pool", name, volume)
	c.Config(t, config(throughGate(), ""))
	killed := c.Start(t, "apply")
	lab.Await(t, "half of the image", func() bool {
		select {
		case <-killed.Done():
			t.Fatalf("the apply ended early: %s", killed.Output())
		default:
		}
		return halfway()
	})
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.Done()
	c.Config(t, config(acctest.Host{}, ""))
	copied(rest)
	// It begins with more zeros than the part that is sent last, and is whole all the same.
	c.Config(t, disk("overlay"))
	c.Run(t, "apply")
	if is := l.Run(t, "kvm1", "qemu-img", "info", "-U", at+"/disk"); !strings.Contains(is, "backing file format: raw") {
		t.Errorf("the disk is %s", is)
	}
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	c.Run(t, "destroy", "-target=virtfleet_volume.disk") // It names the image, but doesn't refer to it.
	c.Run(t, "destroy")
	if err := clean(t, l, name, "kvm1")(nil); err != nil {
		t.Error(err)
	}
}

// fillsUp has a pool become full in the middle of an upload: the error says so, nothing of the image is left, and the
// next apply sends it once there is room.
func fillsUp(
	t *testing.T, l *lab.Lab, c *acctest.CLI, name string, config func(*lab.Proxy) string,
) {
	t.Helper()
	at := "/var/lib/libvirt/" + name
	l.Run(t, "kvm1", "mount", "-t", "tmpfs", "-o", "size=56m", "tmpfs", at)
	// Nothing passes while the gate looks, and the mount is only seen on the host.
	looks, full := 0, false
	c.Config(t, config(l.Gate(t, "kvm1", func() bool {
		if looks++; !full && looks%32 == 0 {
			_, err := l.Host("kvm1").Run(t.Context(), "sh", "-c",
				"test $(du -k "+at+" | cut -f1) -gt 16384 && fallocate -l 24M "+at+"/filler")
			full = err == nil
		}
		return false
	})))
	out := c.Fail(t, "apply")
	for _, want := range []string{
		"No space left: storage pool \"" + name + "\" on host \"kvm1\" became full",
		"bytes left now, and 50331648 are needed", "Free space in the storage pool",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("Terraform doesn't say %q: %s", want, out)
		}
	}
	if all := volumes(t, l, "kvm1", name); len(all) != 1 || all[0] != "filler" {
		t.Errorf("host kvm1 has %v", all)
	}
	l.Run(t, "kvm1", "rm", at+"/filler")
	c.Run(t, "apply")
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	c.Run(t, "destroy", "-target="+address)
	l.Run(t, "kvm1", "umount", at)
}

// TestAccImage_rewrittenFile: a local file that is written anew, with the length and the time of the last write that it
// had, is another image. One that is only touched in another way is the same.
func TestAccImage_rewrittenFile(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	file := filepath.Join(t.TempDir(), "disk.img")
	long := time.Now().Add(-time.Hour)
	write := func(text string) (volume string) {
		content := bytes.Repeat([]byte(text), 1<<16)
		if err := errors.Join(os.WriteFile(file, content, 0o600), os.Chtimes(file, long, long)); err != nil {
			t.Fatal(err)
		}
		return "base-" + sum256(content)[:12]
	}
	c := acctest.NewCLI(t)
	config := func(more string) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}}}.String() + pool(name, "") +
			image(fmt.Sprintf("file = %q", file), more)
	}
	c.Config(t, config(""))
	has := func(volume string) {
		t.Helper()
		if out := l.Virsh(t, "kvm1", "vol-list", name); !strings.Contains(out, volume) {
			t.Errorf("kvm1 has %s; want %s", out, volume)
		}
		if out, empty := c.Empty(t); !empty {
			t.Errorf("the plan should be empty:\n%s", out)
		}
	}
	first := write("one ")
	c.Run(t, "apply")
	has(first)
	// The resource is created again before it is destroyed: the new one adopts the copy, and the destroy leaves it.
	c.Config(t, config("lifecycle { create_before_destroy = true }"))
	if out := c.Run(t, "apply", "-replace="+address); !strings.Contains(out, "written it for another resource") {
		t.Error(out)
	}
	has(first)
	c.Config(t, config(""))
	if err := os.Chmod(file, 0o644); err != nil { //nolint:gosec // It is to be another mode.
		t.Fatal(err)
	}
	has(first)
	second := write("two ")
	if _, empty := c.Empty(t); empty {
		t.Error("the plan doesn't see that the file was written anew")
	}
	c.Run(t, "apply")
	has(second)
	// The same content, compressed, is no other image either, and a fresh checkout of that file none.
	packed := compressed(t, bytes.Repeat([]byte("two "), 1<<16))
	if err := os.WriteFile(file, packed, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Run(t, "apply")
	if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
		t.Fatal(err)
	}
	has(second)
	c.Run(t, "destroy")
}

// TestAccImage_ofAMedium: libvirt calls the format of the copy of a CD image "iso". Its content is raw. A copy
// can't be read over a connection that is read-only: that is an error which says so, and no incomplete copy.
func TestAccImage_ofAMedium(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	medium, err := iso9660.NewWriter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = medium.Cleanup() })
	file := filepath.Join(t.TempDir(), "medium.iso")
	to, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(medium.WriteTo(to, "medium"), to.Close()); err != nil {
		t.Fatal(err)
	}
	declared := pool(name, `hosts = ["kvm1"]`) + image(fmt.Sprintf("file = %q", file), "")
	readOnly := []acctest.Host{
		{Of: l.Host("kvm1"), URI: l.Host("kvm1").URI() + "?socket=/run/libvirt/libvirt-sock-ro"}, {Of: l.Host("kvm2")},
	}
	resource.Test(t, resource.TestCase{
		ProtoV6ProviderFactories: acctest.Factories(t),
		CheckDestroy:             clean(t, l, name, "kvm1"),
		Steps: []resource.TestStep{{
			Config: acctest.Config(l) + declared,
			ConfigStateChecks: []statecheck.StateCheck{
				statecheck.ExpectKnownValue(address, tfjsonpath.New("format"), knownvalue.StringExact("raw")),
			},
		}, {
			Config:      acctest.Block{Lab: l, Hosts: readOnly}.String() + declared,
			ExpectError: regexp.MustCompile(`(?s)Error: Unable to read image.*read-only\. Check\s+hosts\.kvm1\.uri`),
		}, {
			Config: acctest.Config(l) + declared, ConfigPlanChecks: resource.ConfigPlanChecks{
				PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
			},
		}},
	})
}

// TestAccImage_otherContentElsewhere: what an apply has left on one host is removed if another host didn't take it, and
// the former content is declared again. An imported copy is never taken for earlier content of the source.
func TestAccImage_otherContentElsewhere(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	// What other tests have on a host may leave unclear whether a copy is in use there.
	one, two := l.StartHost(t), l.StartHost(t)
	hosts := fmt.Sprintf("hosts = [%q, %q]", one.Name, two.Name)
	both := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: one}, {Of: two}}}.String()
	first, second := read(t, qcow2(t)), read(t, qcow2(t, "-c"))
	url := serve(t, map[string][]byte{"/one": first, "/two": second})
	ofOne, ofTwo := fmt.Sprintf("url = %q", url+"/one"), fmt.Sprintf("url = %q", url+"/two")
	is, other := "base-"+sum256(first)[:12], "base-"+sum256(second)[:12]
	has := func(host string, want ...string) {
		t.Helper()
		if all := volumes(t, l, host, name); !slices.Equal(all, want) {
			t.Errorf("%s has %v, want %v", host, all, want)
		}
	}
	silent := acctest.Block{Lab: l, Settings: `on_unreachable = "keep"`, Hosts: []acctest.Host{
		{Of: one},
		{Name: two.Name, URI: "qemu+ssh://root@" + two.Address + ":9/system"},
	}}.String()
	on := pool(name, hosts)
	c := acctest.NewCLI(t)
	c.Config(t, both+on+image(ofOne, ""))
	c.Run(t, "apply")
	c.Config(t, silent+on+image(ofTwo, ""))
	c.Fail(t, "apply")
	copies := []string{is, other}
	slices.Sort(copies)
	has(one.Name, copies...)
	c.Config(t, both+on+image(ofOne, ""))
	c.Run(t, "apply")
	has(one.Name, is)
	has(two.Name, is)
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}

	importer := acctest.NewCLI(t)
	imported := func(source string) string {
		alone := strings.Replace(image(source, ""), "virtfleet_storage_pool.this.name", strconv.Quote(name), 1)
		return both + alone +
			fmt.Sprintf("import {\n  to = %s\n  id = %q\n}\n", address, name+"/"+is)
	}
	importer.Config(t, imported(ofTwo))
	if out := importer.Fail(t, "apply"); !strings.Contains(out, is) || !strings.Contains(out, sum256(second)) {
		t.Error(out)
	}
	has(one.Name, is)
	has(two.Name, is)
	importer.Config(t, imported(ofOne))
	importer.Run(t, "apply")
	if out, empty := importer.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}

	// A host that leaves while a disk is based on an earlier copy keeps that copy, and the apply says how to remove it.
	l.Virsh(t, two.Name, "vol-create-as", name, "overlay", "64M", "--format", "qcow2", "--backing-vol", is,
		"--backing-vol-format", "qcow2")
	c.Config(t, both+on+image(ofTwo, ""))
	c.Run(t, "apply")
	c.Config(t, both+on+image(ofTwo, fmt.Sprintf("hosts = [%q]", one.Name)))
	frames := strings.NewReplacer("│", "", "╷", "", "╵", "")
	out := strings.Join(strings.Fields(frames.Replace(c.Run(t, "apply"))), " ")
	if by := fmt.Sprintf("virsh vol-delete --pool %s %s", name, is); !strings.Contains(out, by) {
		t.Errorf("the apply doesn't say %q:\n%s", by, out)
	}
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	has(one.Name, other)
	has(two.Name, is, "overlay")
	l.Virsh(t, two.Name, "vol-delete", "--pool", name, "overlay")
	l.Virsh(t, two.Name, "vol-delete", "--pool", name, is)
	c.Run(t, "destroy")
	if err := clean(t, l, name, one.Name, two.Name)(nil); err != nil {
		t.Error(err)
	}
}

// TestAccImage_destroyedWhileSuperseded: while a disk of one host is based on a copy, a destroy of the image removes
// the copies of no host. While one is based on an earlier copy, it removes nothing, and the image stays in the state,
// even if an operator has removed the current copies by hand: otherwise the earlier copy would be in no state, and
// would stay for ever. Once all copies are gone, the image leaves the state.
func TestAccImage_destroyedWhileSuperseded(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	first, second := read(t, qcow2(t)), read(t, qcow2(t, "-c"))
	url := serve(t, map[string][]byte{"/one": first, "/two": second})
	is, other := "base-"+sum256(first)[:12], "base-"+sum256(second)[:12]
	has := func(host string, want ...string) {
		t.Helper()
		slices.Sort(want)
		if all := volumes(t, l, host, name); !slices.Equal(all, want) {
			t.Errorf("%s has %v, want %v", host, all, want)
		}
	}
	c := acctest.NewCLI(t)
	without := acctest.Config(l) + pool(name, `hosts = ["kvm1", "kvm2"]`) // The third host has no such pool.
	c.Config(t, without+image(fmt.Sprintf("url = %q", url+"/one"), ""))
	c.Run(t, "apply")
	l.Virsh(t, "kvm2", "vol-create-as", name, "overlay", "64M", "--format", "qcow2", "--backing-vol", is,
		"--backing-vol-format", "qcow2")
	destroyFails := func(user string) {
		t.Helper()
		out := c.Fail(t, "destroy", "-target=virtfleet_image.this")
		want := fmt.Sprintf("On host kvm2 the image \"base\" is used by %s.", user)
		if !strings.Contains(out, "Image is in use") || !strings.Contains(out, want) || !strings.Contains(out, "Host: kvm2") {
			t.Errorf("the destroy doesn't say %q: %s", want, out)
		}
		has("kvm1", is) // It is refused on the other host.
	}
	destroyFails("volume " + name + "/overlay")
	l.Define(t, "kvm2", fmt.Sprintf("<domain type='qemu'><name>%[1]s</name><memory unit='MiB'>16</memory><os><type>hvm"+
		"</type></os><devices><disk type='file'><driver type='qcow2'/><source file='/var/lib/libvirt/%[1]s/overlay'/>"+
		"<target dev='vda' bus='virtio'/></disk></devices></domain>", name))
	destroyFails("virtual machine " + name)
	// A replacement destroys it, too.
	c.Config(t, without+strings.Replace(image(fmt.Sprintf("url = %q", url+"/one"), ""), `"base"`, `"renamed"`, 1))
	if out := c.Run(t, "plan"); !strings.Contains(out, "Image is in use: "+name+"/"+is) ||
		!strings.Contains(out, "virtual machine "+name) || !strings.Contains(out, "declare another virtfleet_image") {
		t.Errorf("the plan of a replacement says: %s", out)
	}
	l.Virsh(t, "kvm2", "undefine", name)
	c.Config(t, without+image(fmt.Sprintf("url = %q", url+"/two"), ""))
	c.Run(t, "apply")
	has("kvm1", other)
	has("kvm2", is, other, "overlay")
	// What the destroy of an image says, on one line.
	refused := func() {
		t.Helper()
		out := strings.NewReplacer("│", "", "╷", "", "╵", "").Replace(c.Fail(t, "apply"))
		out = strings.Join(strings.Fields(out), " ")
		for _, want := range []string{"Unable to delete image", fmt.Sprintf("Volume %q is kept", name+"/"+is), "Host: kvm2"} {
			if !strings.Contains(out, want) {
				t.Errorf("the destroy doesn't say %q:\n%s", want, out)
			}
		}
	}
	c.Config(t, without)
	refused()
	has("kvm1", other)
	has("kvm2", is, other, "overlay")
	for _, host := range []string{"kvm1", "kvm2"} {
		l.Virsh(t, host, "vol-delete", "--pool", name, other)
	}
	refused()
	has("kvm2", is, "overlay")
	l.Virsh(t, "kvm2", "vol-delete", "--pool", name, "overlay")
	if _, empty := c.Empty(t); empty {
		t.Error("the plan doesn't destroy the image, of which an earlier copy is left")
	}
	c.Run(t, "apply")
	has("kvm2")
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	c.Run(t, "destroy")
	if err := clean(t, l, name, "kvm1", "kvm2")(nil); err != nil {
		t.Error(err)
	}
}
