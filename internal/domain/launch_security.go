package domain

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"
)

const securityWhy = "The memory is protected from the start of the VM."

// launchSecurityGroup protects the guest's memory from the host.
var launchSecurityGroup = Group{
	Path: "platform.launch_security",
	Doc: "Protection of the guest's memory from its host. The host and the firmware must support it. Such a VM can't " +
		"be moved while it runs.",
	Attributes: []Attribute{
		{
			Name: "type", Values: []string{"sev", "sev-snp", "tdx", "s390-pv"}, Unset: None, Why: securityWhy,
			Capability: "launchSecurity/sectype",
			SinceOf:    map[string]string{"sev-snp": "10.5.0", "tdx": "11.6.0", "s390-pv": "7.6.0"},
			Needs: map[string]string{
				"sev":     "an AMD CPU with SEV, and kvm_amd.sev=1",
				"sev-snp": "an AMD CPU with SEV-SNP, kvm_amd.sev_snp=1, and QEMU 9.1",
				"tdx":     "an Intel CPU with TDX, kvm_intel.tdx=1, and QEMU 10.1",
				"s390-pv": "an IBM Z CPU with Secure Execution, and prot_virt=1",
			},
			Read: func(e *etree.Element) string { return textAt(e, "launchSecurity@type") },
			Write: func(e *etree.Element, value string) error {
				if value == "" { // Without a type, the rest of the element has no meaning.
					dropChildren(e, "launchSecurity")
				}
				setTextAt(e, "launchSecurity@type", value)
				return nil
			},
			Doc: "Kind of protection: AMD `sev` and `sev-snp` (libvirt 10.5), Intel `tdx` (libvirt 11.6), or IBM " +
				"`s390-pv` (libvirt 7.6). `none` removes it.",
		},
		{
			Name: "policy", Place: "launchSecurity/policy", Normal: normalNumber, Follows: "type", Why: securityWhy,
			Check: func(value string) string {
				if _, err := strconv.ParseUint(value, 0, 64); err != nil {
					return "It isn't a number such as 0x3."
				}
				return ""
			},
			Doc: "What the guest's owner allows: a number as text, such as `0x3`. Required for `sev` and `sev-snp`.",
		},
		{
			Name: "cbitpos", Place: "launchSecurity/cbitpos", Kind: Count, Echo: true, Follows: "type", Why: securityWhy,
			DefaultDoc: "read from the host",
			Doc:        "Bit of an address that marks an encrypted page.",
		},
		{
			Name: "reduced_phys_bits", Place: "launchSecurity/reducedPhysBits", Kind: Count, Echo: true, Follows: "type",
			Why: securityWhy, DefaultDoc: "read from the host",
			Doc: "Number of address bits that the protection uses.",
		},
		{
			Name: "kernel_hashes", Place: "launchSecurity@kernelHashes", Kind: Switch, Since: "8.0.0", Follows: "type",
			Why: securityWhy,
			Doc: "Whether kernel, initrd and command line of `kernel` are measured, too.",
		},
		base64Attribute("dh_cert", "dhCert", "Diffie-Hellman key of the guest's owner, for `sev`."),
		base64Attribute("session", "session", "Session of the guest's owner, for `sev`."),
		base64Attribute("id_block", "idBlock", "Identity of the guest, for `sev-snp`."),
		base64Attribute("id_auth", "idAuth", "Signature of `id_block`."),
		base64Attribute("host_data", "hostData", "Data that the host hands to the guest, for `sev-snp`."),
	},
	Check: func(value func(string) string) (attribute, problem string) {
		kind := value("type")
		if (kind == "sev" || kind == "sev-snp") && value("policy") == "" {
			return "policy", "The type " + kind + " needs one."
		}
		if kind == "" || kind == None {
			return "", ""
		}
		for _, setting := range securitySettings {
			if value(setting.name) != "" && !slices.Contains(setting.types, kind) {
				return setting.name, "The type " + kind + " has none, only " + strings.Join(setting.types, " and ") + "."
			}
		}
		return "", ""
	},
}

// securitySettings are the types of protection that have an attribute. libvirt refuses it with another type.
var securitySettings = []struct {
	name  string
	types []string
}{
	{"policy", []string{"sev", "sev-snp", "tdx"}},
	{"cbitpos", []string{"sev", "sev-snp"}},
	{"reduced_phys_bits", []string{"sev", "sev-snp"}},
	{"kernel_hashes", []string{"sev", "sev-snp"}},
	{"dh_cert", []string{"sev"}},
	{"session", []string{"sev"}},
	{"id_block", []string{"sev-snp"}},
	{"id_auth", []string{"sev-snp"}},
	{"host_data", []string{"sev-snp"}},
}

// SecuritySlot is the kind of slot that an AMD processor uses for the key of a guest's memory, "" for none. A processor
// has a limited number of slots of each kind.
type SecuritySlot string

// The kinds of slots. SEV-SNP uses the slots of SEV-ES.
const (
	SlotSEV   SecuritySlot = "SEV"
	SlotSEVES SecuritySlot = "SEV-ES"
)

// LaunchSecurityType is the attribute that declares the type of protection.
const LaunchSecurityType = "platform.launch_security.type"

// encryptedState is the bit of a SEV policy that requests SEV-ES.
const encryptedState = 1 << 2

func (f Values) securitySlot() SecuritySlot {
	policy, _ := strconv.ParseUint(f["platform.launch_security.policy"], 0, 64) // Check has refused anything else.
	switch kind := f[LaunchSecurityType]; {
	case kind == "sev-snp", kind == "sev" && policy&encryptedState != 0:
		return SlotSEVES
	case kind == "sev":
		return SlotSEV
	default:
		return ""
	}
}

// base64Attribute returns an attribute of launch security whose value is base64.
func base64Attribute(name, tag, doc string) Attribute {
	return Attribute{
		Name: name, Place: "launchSecurity/" + tag, Follows: "type", Why: securityWhy, Doc: doc + " Encoded in Base64.",
		Check: func(value string) string {
			if _, err := base64.StdEncoding.DecodeString(value); err != nil {
				return "It isn't base64."
			}
			return ""
		},
	}
}

// normalNumber writes a number in one form, whatever its base.
func normalNumber(value string) string {
	n, err := strconv.ParseUint(value, 0, 64)
	if err != nil {
		return value
	}
	return "0x" + strconv.FormatUint(n, 16)
}
