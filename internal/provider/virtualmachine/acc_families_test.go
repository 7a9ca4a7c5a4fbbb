package virtualmachine_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// families are devices of many kinds at once.
const families = `{
    graphics = { type = "vnc", listen = "address", address = "127.0.0.1", keymap = "de" }
    video    = { model = "virtio", heads = 2 }
    sound    = {}
    panic    = { model = "isa" }
    iommu    = { caching_mode = true }
    %s
  }`

// TestAccFamilies_life: a running guest with a device of each kind is changed in what can change while it runs, refused
// what can't, and crashes by its panic device.
func TestAccFamilies_life(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	const host = "kvm1"
	tf := acctest.NewCLI(t)
	process := &started{l: l, host: host, name: name}
	config := vmWithKernelWords(l, name, "panic").with(talking).with(hcl{
		"host": quote(host), "memory": `{ size = "256Mi" }`, "termination_grace_period": quote("5s"),
		"platform": `{
    events   = { on_crash = "destroy" }
    clock    = { offset = "localtime", hpet = false, rtc_tickpolicy = "delay" }
    hyperv   = { relaxed = true, spinlocks = 8191, vendor_id = "KVM Hv" }
    features = { acpi = true, vmport = false }
  }`,
		"graphics_access": `{ password_wo = "erstes", password_wo_version = "1" }`,
	})
	password := func(want string) {
		t.Helper()
		for _, definition := range [][]string{{"--inactive"}, nil} {
			xml := l.Virsh(t, host, append([]string{"dumpxml", "--security-info", name}, definition...)...)
			if !strings.Contains(xml, "passwd='"+want+"'") {
				t.Errorf("the password isn't %s in:\n%s", want, xml)
			}
		}
		state, err := os.ReadFile(filepath.Join(tf.Dir, "terraform.tfstate"))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Split(string(state), `"`) {
			private, _ := base64.StdEncoding.DecodeString(word) // Private data is written so.
			if strings.Contains(word+string(private), want) {
				t.Error("the password is in the state")
			}
		}
	}
	log := "/var/log/libvirt/qemu/" + name + "-port.log"
	keyed := func(inputs, channels string) string {
		return fmt.Sprintf(`inputs = { %s }
    channels    = { %s }
    serials     = { log = { type = "file", path = %q } }
    filesystems = { share = { target = "share", source = "/srv", driver = "9p", access_mode = "mapped" } }`,
			inputs, channels, log)
	}
	config = config.with(hcl{"devices": fmt.Sprintf(families, keyed(`tablet = { type = "tablet" }`, ""))})
	apply := func(change hcl, is func(*testing.T) resource.TestCheckFunc, seen ...string) {
		t.Helper()
		config = config.with(change)
		tf.Config(t, acctest.OneHost(l)+config.String())
		tf.Run(t, "apply")
		for _, check := range []resource.TestCheckFunc{is(t), look(t, l, host, name, seen...)} {
			if err := check(nil); err != nil {
				t.Error(err)
			}
		}
		noChanges(t, tf)
	}
	refused := func(change hcl, texts ...string) {
		t.Helper()
		tf.Config(t, config.withHosts(l, change))
		expect(t, tf.Fail(t, "plan"), texts...)
	}
	apply(nil, process.same, `keymap='de'`, `listen='127.0.0.1'`, `<model type='virtio' heads='2'`, `<sound model='ich9'>`,
		`<panic model='isa'`, `caching_mode='on'`, `<clock offset='localtime'>`,
		`<timer name='hpet' present='no'/>`, `<timer name='rtc' tickpolicy='delay'/>`,
		`<spinlocks state='on' retries='8191'/>`, `<vendor_id state='on' value='KVM Hv'/>`, `<vmport state='off'/>`)
	state, _ := tf.State(t, address)
	if devices, ok := state["devices"].(map[string]any); !ok || devices["tpm"] != nil {
		t.Errorf("what isn't declared is in the state: %v", state["devices"])
	}

	password("erstes")
	if err := look(t, l, host, name, `<input type='tablet' bus='usb'>`, `ua-input-tablet`,
		`<target dir='share'/>`)(nil); err != nil {
		t.Error(err)
	}
	if wrote := l.Run(t, host, "cat", log); strings.TrimSpace(wrote) == "" {
		t.Errorf("the guest's serial port wrote %q", wrote)
	}
	tf.Config(t, acctest.Config(l)+config.with(hcl{"host": quote("kvm2")}).String())
	expect(t, tf.Run(t, "plan"), "shares a directory with its host")

	// What can be changed while it runs.
	changed := hcl{
		"devices": fmt.Sprintf(families, keyed(`mouse = { type = "mouse" }`,
			`a = { type = "unix", name = "org.example.a" }`)),
		"graphics_access": `{ password_wo = "zweites", password_wo_version = "2" }`,
	}
	apply(changed, process.same, `<input type='mouse' bus='usb'>`, `name='org.example.a'`)
	if err := lacks(t, l, host, name, "ua-input-tablet")(nil); err != nil {
		t.Error(err)
	}
	password("zweites")
	refused(hcl{"graphics_access": `{ password_wo = "too long by far", password_wo_version = "3" }`},
		"no more than 8 characters")
	refused(hcl{"graphics_access": ""}, "Change needs a restart", "graphics_access: Whether the screen asks")
	refused(hcl{"devices": fmt.Sprintf(families, `vsock = { cid = 2 }`)}, "neither a number from 3")
	refused(hcl{"devices": strings.Replace(fmt.Sprintf(families, ""), "127.0.0.1", "0.0.0.0", 1)},
		"Change needs a restart", "devices.graphics.address: The screen's server is set up when the VM starts.")
	restarting := hcl{"update_policy": quote("Restart")}
	refused(restarting.with(hcl{"devices": `{ panic = { model = "pvpanic" } }`}),
		"because of devices.panic.model", "pvpanic")
	refused(restarting.with(hcl{"platform": `{ hyperv = { stimer = true } }`}), "platform.hyperv.stimer")

	// The guest's kernel crashes, and the panic device says so.
	inGuest(t, l, host, name, "echo c >/proc/sysrq-trigger")
	awaitState(t, l, host, name, "shut off (crashed)")
	apply(restarting.with(hcl{"devices": `{
    graphics = { listen = "address", port = 5977, address = "0.0.0.0" }
    video    = { model = "vga" }
    sound    = { model = "none" }
    panic    = { model = "none" }
    iommu    = { model = "none" }
    inputs = {}
    channels = {}
    serials = {}
    filesystems = {}
  }`, "platform": `{ clock = { offset = "utc" }, hyperv = { relaxed = false, spinlocks = 0, vendor_id = "" } }`}),
		process.restarted, `port='5977' autoport='no' listen='0.0.0.0'`, `<model type='vga'`,
		`<clock offset='utc'>`, `<relaxed state='off'/>`)
	if err := lacks(t, l, host, name, "<sound", "<panic", "<iommu", "<spinlocks", "<vendor_id", "<serial", "<console",
		"<filesystem", "bus='usb'", "org.example")(nil); err != nil {
		t.Error(err)
	}
	// What a user changes by hand of any kind is seen and put right.
	l.Define(t, host, strings.NewReplacer("<devices>", `<devices><sound model="ac97"/><panic model="isa"/>
    <iommu model="intel"/><input type="mouse" bus="usb"/>
    <channel type="unix"><target type="virtio" name="org.example.b"/></channel>
    <filesystem type="mount"><source dir="/srv"/><target dir="share"/></filesystem>`,
		"offset='utc'", "offset='localtime'", "port='5977'", "port='5978'", "<model type='vga'", "<model type='bochs'",
		"<relaxed state='off'/>", "<relaxed state='on'/>").Replace(l.Virsh(t, host, "dumpxml", "--inactive", name)))
	apply(nil, process.same, `port='5977'`, `<model type='vga'`, `<clock offset='utc'>`, `<relaxed state='off'/>`)
	if err := lacks(t, l, host, name, "<sound", "<panic", "<iommu", "<filesystem", "bus='usb'",
		"org.example")(nil); err != nil {
		t.Error(err)
	}
	destroyAndCheck(t, l, tf, name)
}

// TestAccFamilies_imported: what was made by hand is imported as it is, and another title touches nothing else.
func TestAccFamilies_imported(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu"><name>%s</name><title>By hand</title>
  <memory unit="MiB">64</memory><os><type arch="x86_64" machine="q35">hvm</type></os>
  <features><acpi/><apic/><pae/><hyperv mode="custom"><relaxed state="on"/><vapic state="on"/>
    <spinlocks state="on" retries="4096"/><stimer state="on"><direct state="on"/></stimer><vpindex state="on"/>
    <synic state="on"/></hyperv><kvm><hidden state="on"/></kvm></features>
  <clock offset="variable" adjustment="3600" basis="utc"><timer name="hypervclock" present="yes"/></clock>
  <devices><graphics type="vnc" port="5999" autoport="no" passwd="secret" keymap="de"><listen type="address"/>
    </graphics><graphics type="spice" autoport="yes"/><video><model type="qxl" vram="32768"/></video>
    <video><model type="virtio"/></video>
    <sound model="ac97"/><sound model="usb"/><panic model="hyperv"/><iommu model="intel"><driver eim="off"/></iommu>
    <memballoon model="virtio" freePageReporting="on"><stats period="7"/></memballoon>
    <vsock model="virtio"><cid auto="no" address="77"/></vsock><input type="tablet" bus="usb"/>
    <input type="keyboard" bus="virtio"/><serial type="pty"><log file="/var/log/x" append="on"/></serial>
    <serial type="file"><source path="/var/log/y"/></serial>
    <channel type="spicevmc"><target type="virtio" name="com.redhat.spice.0"/></channel>
    <channel type="unix"><source mode="bind" path="/run/z.sock"/><target type="virtio" name="org.z"/></channel>
    <filesystem type="mount" accessmode="mapped"><source dir="/srv"/><target dir="share"/><readonly/></filesystem>
    <hostdev mode="subsystem" type="pci" managed="yes"><source><address domain="0" bus="0x65" slot="0" function="0"/>
      </source></hostdev><hostdev mode="subsystem" type="usb"><source><vendor id="0x1234"/><product id="0xabcd"/>
      </source></hostdev><hostdev mode="subsystem" type="scsi"><source><adapter name="scsi_host2"/>
      <address bus="0" target="1" unit="5"/></source></hostdev></devices></domain>`, name))
	defined := func() string { return l.Virsh(t, "kvm1", "dumpxml", "--inactive", "--security-info", name) }
	l.Define(t, "kvm1", defined()) // libvirt sorts the controllers that it added itself when it reads them again.
	before := defined()
	config := hcl{"name": quote(name), "run_strategy": quote("Halted")}
	imported := config.with(hcl{"title": quote("By hand"), "devices": `{
    graphics = { type = "vnc", listen = "address", port = 5999, keymap = "de" }
    video    = { model = "qxl", vram = 32768 }
    sound    = { model = "ac97" }
    vsock    = { cid = 77 }
    inputs   = { input0 = { type = "tablet" }, input1 = { type = "keyboard", bus = "virtio" } }
    serials  = { serial0 = { type = "pty", log_file = "/var/log/x", log_append = true },
                 serial1 = { type = "file", path = "/var/log/y" } }
    channels = { channel0 = { type = "spicevmc", name = "com.redhat.spice.0" },
                 channel1 = { type = "unix", path = "/run/z.sock", name = "org.z" } }
    filesystems  = { filesystem0 = { target = "share", source = "/srv", driver = "9p", read_only = true } }
    host_devices = { hostdev0 = { type = "pci", address = "0000:65:00.0" },
                     hostdev1 = { type = "usb", address = "1234:abcd" },
                     hostdev2 = { type = "scsi", address = "2:0:1:5" } }
  }`, "platform": `{
    clock  = { offset = "variable", hypervclock = true }
    hyperv = { spinlocks = 4096, stimer = true }
  }`})
	unchanged := func(replaced ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			now := defined()
			if begin, end := strings.Index(now, "<metadata>"), strings.Index(now, "</metadata>"); begin > 0 {
				now = now[:begin] + strings.TrimLeft(now[end+len("</metadata>"):], " \n")
			}
			want := strings.NewReplacer(replaced...).Replace(before)
			if strings.Join(strings.Fields(now), " ") != strings.Join(strings.Fields(want), " ") {
				return fmt.Errorf("it was\n%s\nand is\n%s", want, now)
			}
			return nil
		}
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: acctest.OneHost(l) + config.String(), ResourceName: address, ImportState: true, ImportStateId: name,
		ImportStatePersist: true,
	}, resource.TestStep{
		Config: acctest.OneHost(l) + config.String(), ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
		Check: unchanged(),
	}, resource.TestStep{
		Config: acctest.OneHost(l) + imported.String(), ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
		Check: unchanged(),
	}, resource.TestStep{
		Config:           acctest.OneHost(l) + imported.with(hcl{"title": quote("By plan")}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: unchanged("By hand", "By plan"),
	})
}
