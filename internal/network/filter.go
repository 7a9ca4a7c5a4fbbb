package network

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/beevik/etree"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// Filter is what a configuration declares for a network filter.
type Filter struct {
	Chain      string       `json:"chain,omitzero"`    // "root", "ipv4", "arp", ...; if "", libvirt chooses
	Priority   *int         `json:"priority,omitzero"` // of the chain
	References []string     `json:"references,omitzero"`
	Rules      []FilterRule `json:"rules,omitzero"`
	XML        string       `json:"xml,omitzero"` // the whole definition, instead of the fields above
}

// FilterRule is one rule.
type FilterRule struct {
	Action     string            `json:"action,omitzero"`
	Direction  string            `json:"direction,omitzero"`
	Priority   *int              `json:"priority,omitzero"`
	StateMatch *bool             `json:"state_match,omitzero"`
	Protocol   string            `json:"protocol,omitzero"` // if "", every packet
	Match      map[string]string `json:"match,omitzero"`    // libvirt's attributes of the protocol
	Negate     bool              `json:"negate,omitzero"`   // the rule applies to packets that don't match
}

// Document returns the filter's definition under a name. It returns an error that says what is wrong with the rules or
// the given XML.
func (f Filter) Document(name string) (*etree.Document, error) {
	document := etree.NewDocument()
	if f.XML != "" {
		if err := document.ReadFromString(f.XML); err != nil {
			return nil, fmt.Errorf("%w: xml can't be read: %w", libvirt.ErrInvalid, err)
		}
		root := document.Root()
		switch {
		case root == nil || root.Tag != "filter":
			return nil, fmt.Errorf("%w: the root of xml must be <filter>", libvirt.ErrInvalid)
		case attr(root, "name") != "" && attr(root, "name") != name:
			return nil, fmt.Errorf("%w: xml names the filter %q, the attribute name %q", libvirt.ErrInvalid, attr(root, "name"),
				name)
		}
		set(root, "name", name)
		return document, verifyRules(root)
	}
	root := document.CreateElement("filter")
	set(root, "name", name)
	set(root, "chain", f.Chain)
	setOptional(root, "priority", f.Priority)
	for _, reference := range f.References {
		set(root.CreateElement("filterref"), "filter", reference)
	}
	for _, r := range f.Rules {
		rule := root.CreateElement("rule")
		set(rule, "action", r.Action)
		set(rule, "direction", r.Direction)
		setOptional(rule, "priority", r.Priority)
		if r.StateMatch != nil && !*r.StateMatch {
			set(rule, "statematch", "0")
		}
		if r.Protocol == "" {
			continue
		}
		protocol := rule.CreateElement(r.Protocol)
		if r.Negate {
			set(protocol, "match", "no")
		}
		for _, key := range slices.Sorted(maps.Keys(r.Match)) {
			set(protocol, key, r.Match[key])
		}
	}
	return document, verifyRules(root)
}

// Referenced returns the names of the other filters that are part of the filter. The XML must be valid.
func (f Filter) Referenced() []string {
	document, err := f.Document("")
	if err != nil {
		return f.References
	}
	var names []string
	for _, e := range document.FindElements("//filterref") {
		names = append(names, attr(e, "filter"))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func setOptional(e *etree.Element, key string, n *int) {
	if n != nil {
		e.CreateAttr(key, fmt.Sprint(*n))
	}
}

// FilterState is a network filter on a host.
type FilterState struct {
	XML string // without the UUID
	// Digest is the same for two definitions that libvirt prints alike, apart from their UUID.
	Digest string
	UUID   string
}

// ReadFilter reads a network filter of a host. It returns libvirt.ErrNotFound if the host answered and has no filter of
// that name.
func ReadFilter(ctx context.Context, h *libvirt.Host, name string) (*FilterState, error) {
	text, err := h.NWFilter(ctx, name)
	if err != nil {
		return nil, err
	}
	document := etree.NewDocument()
	if err := document.ReadFromString(text); err != nil || document.Root() == nil {
		return nil, fmt.Errorf("%w: the definition of network filter %q can't be read", libvirt.ErrInternal, name)
	}
	s := &FilterState{}
	if uuid := child(document.Root(), "uuid"); uuid != nil {
		s.UUID = uuid.Text()
	}
	drop(document.Root(), "uuid")
	document.Indent(2)
	if s.XML, err = document.WriteToString(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(s.XML))
	s.Digest = hex.EncodeToString(sum[:])
	return s, nil
}

// PutFilter defines a network filter, in place of an existing filter of that name, and returns the result on the host.
// The change applies at once to the interfaces that use the filter. uuid is that of a new filter; if "", libvirt
// chooses. A filter with another one isn't changed.
func PutFilter(ctx context.Context, h *libvirt.Host, name, uuid string, want Filter) (*FilterState, error) {
	document, err := want.Document(name)
	if err != nil {
		return nil, err
	}
	have, err := ReadFilter(ctx, h, name)
	if err != nil && !errors.Is(err, libvirt.ErrNotFound) {
		return nil, err
	}
	drop(document.Root(), "uuid")
	if have != nil && uuid != "" && uuid != have.UUID {
		return nil, fmt.Errorf("%w: the host has another network filter %q", libvirt.ErrExists, name)
	}
	if have != nil {
		uuid = have.UUID
	}
	if uuid != "" {
		document.Root().CreateElement("uuid").SetText(uuid)
	}
	text, err := document.WriteToString()
	if err != nil {
		return nil, err
	}
	if err := h.DefineNWFilter(ctx, text); err != nil {
		return nil, err
	}
	return ReadFilter(ctx, h, name)
}

// FilterUse returns the users of a network filter on a host: VMs by their definitions, and other filters.
func FilterUse(ctx context.Context, h *libvirt.Host, name string) ([]string, error) {
	users, err := filterUsers(ctx, h, name)
	if err != nil {
		return nil, err
	}
	var used []string
	for _, u := range users {
		used = append(used, u.String())
	}
	filters, err := h.NWFilters(ctx)
	if err != nil {
		return nil, err
	}
	for _, text := range filters {
		if !strings.Contains(text, "<filterref") {
			continue
		}
		document := etree.NewDocument()
		if err := document.ReadFromString(text); err != nil {
			return nil, errors.Join(libvirt.ErrInternal, err)
		}
		if slices.ContainsFunc(children(document.Root(), "filterref"), func(e *etree.Element) bool {
			return attr(e, "filter") == name
		}) {
			used = append(used, "network filter "+attr(document.Root(), "name"))
		}
	}
	return used, nil
}

// CheckDeleteFilter returns ErrInUse if the host has the network filter and something uses it. It changes nothing.
func CheckDeleteFilter(ctx context.Context, h *libvirt.Host, name string) error {
	if _, err := ReadFilter(ctx, h, name); errors.Is(err, libvirt.ErrNotFound) {
		return nil
	}
	used, err := FilterUse(ctx, h, name)
	if err != nil || len(used) == 0 {
		return err
	}
	return fmt.Errorf("%w by %s", ErrInUse, strings.Join(used, ", "))
}

// DeleteFilter removes a network filter. It is no error if the host has no such filter. A filter in use is refused.
func DeleteFilter(ctx context.Context, h *libvirt.Host, name string) error {
	if err := CheckDeleteFilter(ctx, h, name); err != nil {
		return err
	}
	if err := h.UndefineNWFilter(ctx, name); !errors.Is(err, libvirt.ErrNotFound) {
		return err
	}
	return nil
}
