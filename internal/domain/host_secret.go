package domain

import (
	"fmt"

	"github.com/google/uuid"
)

// HostSecret is a secret that a host needs, because QEMU opens a part of the VM with it.
type HostSecret struct {
	UUID string
	// Attribute is the attribute that declares the secret, or that of the part if the secret may be undeclared.
	Attribute string
	// Opens is what is opened, for messages: `disk "root"`. TPM says that it is the TPM.
	Opens string
	TPM   bool
}

// checkSecretID says what is wrong with the id of a secret.
func checkSecretID(value string) string {
	if _, err := uuid.Parse(value); err != nil {
		return "It isn't the id of a virtfleet_secret, which is a UUID."
	}
	return ""
}

// Secrets returns the secrets that are declared.
func (s Spec) Secrets() []HostSecret {
	var all []HostSecret
	declare := func(what, attribute, secret string) {
		if secret != "" {
			all = append(all, HostSecret{UUID: secret, Attribute: attribute, Opens: what})
		}
	}
	for _, key := range sortedKeys(s.Disks) {
		disk := s.Disks[key]
		declare(opensDisk(key), join("disks."+key, EncryptionSecret), disk.Values[EncryptionSecret])
		if n := disk.Source.Network; n != nil && n.Auth != nil {
			declare(opensDisk(key), "disks."+key+".network.auth.secret", n.Auth.Secret)
		}
	}
	if secret := s.Values[TPMSecret]; secret != "" {
		all = append(all, HostSecret{UUID: secret, Attribute: TPMSecret, Opens: opensTPM, TPM: true})
	}
	return all
}

// Secrets returns the secrets that the VM needs on its host, declared or not.
func (m *Mobility) Secrets() []HostSecret {
	var all []HostSecret
	for _, disk := range m.Disks {
		for _, secret := range disk.Secrets {
			all = append(all, HostSecret{UUID: secret, Attribute: "disks." + disk.Key, Opens: opensDisk(disk.Key)})
		}
	}
	if m.TPMSecret != "" {
		all = append(all, HostSecret{UUID: m.TPMSecret, Attribute: TPMSecret, Opens: opensTPM, TPM: true})
	}
	return all
}

const opensTPM = "its TPM"

func opensDisk(key string) string { return fmt.Sprintf("disk %q", key) }
