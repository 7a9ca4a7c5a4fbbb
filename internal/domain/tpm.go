package domain

import (
	"errors"
	"strings"

	"github.com/beevik/etree"
)

// TPMSecret is the path of the secret that the TPM's state is encrypted with.
const TPMSecret = "devices.tpm.encryption_secret"

const (
	tpmPassthrough = "passthrough"
	tpmExternal    = "external"
	tpmConnected   = "The TPM is connected when the VM starts."
)

// tpmGroup is the TPM. swtpm emulates it. libvirt copies swtpm's state in a live migration.
var tpmGroup = Group{
	Path: "devices.tpm", Device: "tpm", Bus: busNone,
	Doc:     "TPM. Its state is kept on the host and moves with the VM; an encrypted one only while the VM runs.",
	Added:   Transition{Why: "A TPM can be added only when the VM starts."},
	Removed: Transition{Why: "A TPM can't be removed from a running VM."},
	Attributes: []Attribute{
		{
			Name: "model", Place: "@model", Values: []string{"tpm-crb", "tpm-tis", "tpm-spapr"},
			Kept: []string{"spapr-tpm-proxy"}, Default: "tpm-tis",
			Defaults: map[string]string{
				"x86_64": "tpm-crb", "i686": "tpm-crb", "ppc64": "tpm-spapr", "ppc64le": "tpm-spapr",
			},
			Filled: true, Capability: "tpm/model",
			DefaultDoc: "`tpm-crb` on x86, `tpm-spapr` on POWER, otherwise `tpm-tis`",
			Why:        "A device of another model can't replace one in use.",
			Doc:        "TPM model. Most systems, such as Windows 11, work with `tpm-crb`.",
		},
		{
			Name: "backend", Place: "backend@type", Values: []string{"emulator", tpmPassthrough, tpmExternal},
			Default: "emulator", Filled: true, Capability: "tpm/backendModel", SinceOf: map[string]string{tpmExternal: "9.0.0"},
			Needs: map[string]string{"emulator": "swtpm and swtpm-tools"},
			Why:   tpmConnected,
			Doc: "Backend: `emulator` is libvirt's swtpm, which the host must have, `passthrough` the host's TPM, `external` " +
				"an swtpm process that you run (libvirt 9.0). A VM with the last two can't be moved while it runs.",
		},
		{
			Name: "path", Follows: "backend", Check: absolute, Why: tpmConnected,
			Read: func(e *etree.Element) string {
				switch textAt(e, "backend@type") {
				case tpmPassthrough:
					return textAt(e, "backend/device@path")
				case tpmExternal:
					return textAt(e, "backend/source@path")
				default:
					return "" // That of an emulator is libvirt's.
				}
			},
			Write: func(e *etree.Element, value string) error {
				backend := child(e, "backend")
				dropChildren(backend, "device")
				if source := child(backend, "source"); attr(source, "type") == "unix" {
					drop(source)
				}
				switch kind := attr(backend, "type"); {
				case value == "":
				case kind == tpmPassthrough:
					add(backend, "device", "path", value)
				case kind == tpmExternal:
					add(backend, "source", "type", "unix", "mode", "connect", "path", value)
				default:
					return errors.New("only the backends passthrough and external have it")
				}
				return nil
			},
			DefaultDoc: "`/dev/tpm0` for `passthrough`",
			Doc:        "The host's TPM for `passthrough`, or the socket of the swtpm for `external`.",
		},
		{
			Name: "version", Place: "backend@version", Values: []string{"2.0", "1.2"}, Default: "2.0", Filled: true,
			Follows: "backend", Capability: "tpm/backendVersion",
			Why: "A TPM of another version doesn't read the old state: it starts without it.",
			Doc: "Version of the TPM.",
		},
		{
			Name: "persistent_state", Place: "backend@persistent_state", Kind: Switch, Follows: "backend",
			Unset: "no", Since: "7.0.0", // libvirt never writes "no".
			Why:        "It is decided when the TPM starts with the VM.",
			DefaultDoc: "`false`",
			Doc:        "Whether the TPM's state is kept when a transient VM (one without a persistent definition) stops.",
		},
		{
			Name: "encryption_secret", Place: "backend/encryption@secret", Follows: "backend", Since: "5.6.0",
			Normal: strings.ToLower, Check: checkSecretID,
			Why: "The TPM's state is opened with its secret when the VM starts.",
			Doc: "`id` of the `virtfleet_secret` of usage `vtpm` with the passphrase, which each host of the VM needs. State " +
				"that was encrypted with another passphrase can't be read. `\"\"` removes the encryption from the definition; " +
				"encrypted state can't be read then.",
		},
	},
	Check: func(value func(string) string) (attribute, problem string) {
		backend := value("backend")
		switch emulated := backend == "" || backend == "emulator"; {
		case value("model") == "tpm-crb" && value("version") == "1.2":
			return "version", "The model tpm-crb is for version 2.0 only."
		case emulated && value("path") != "":
			return "path", `Only the backends "passthrough" and "external" have it.`
		case backend == tpmExternal && value("path") == "":
			return "path", `The backend "external" needs it: the socket of the swtpm on the host.`
		}
		for _, name := range []string{"version", "persistent_state", "encryption_secret"} {
			if (backend == tpmPassthrough || backend == tpmExternal) && value(name) != "" && value(name) != "no" {
				return name, `Only the backend "emulator" has it.`
			}
		}
		return "", ""
	},
}

// EmulatesTPM reports whether the VM has a TPM whose state is kept on the host.
func (s Spec) EmulatesTPM() bool { return s.Values["devices.tpm.backend"] == "emulator" }
