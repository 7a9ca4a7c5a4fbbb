package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	golibvirt "libvirt.org/go/libvirt"
)

func TestKindOf_failureIsNotAbsence(t *testing.T) {
	t.Parallel()
	absent := map[golibvirt.ErrorNumber]bool{
		golibvirt.ERR_NO_DOMAIN: true, golibvirt.ERR_NO_NETWORK: true, golibvirt.ERR_NO_STORAGE_POOL: true,
		golibvirt.ERR_NO_STORAGE_VOL: true, golibvirt.ERR_NO_NODE_DEVICE: true, golibvirt.ERR_NO_INTERFACE: true,
		golibvirt.ERR_NO_NWFILTER: true, golibvirt.ERR_NO_NWFILTER_BINDING: true, golibvirt.ERR_NO_NETWORK_PORT: true,
		golibvirt.ERR_NO_SECRET: true, golibvirt.ERR_NO_DOMAIN_SNAPSHOT: true,
		golibvirt.ERR_NO_DOMAIN_CHECKPOINT: true, golibvirt.ERR_NO_DOMAIN_BACKUP: true,
	}
	// What lacks a part isn't gone.
	lacking := map[golibvirt.ErrorNumber]bool{
		golibvirt.ERR_NO_DOMAIN_METADATA: true, golibvirt.ERR_NO_NETWORK_METADATA: true,
		golibvirt.ERR_NO_HOSTNAME: true, golibvirt.ERR_DEVICE_MISSING: true,
	}
	for code := golibvirt.ErrorNumber(1); code < 200; code++ {
		kind := kindOf(code)
		if kind == nil {
			t.Errorf("%d has no kind", code)
		}
		if errors.Is(kind, ErrNotFound) != absent[code] || errors.Is(kind, ErrLacking) != lacking[code] {
			t.Errorf("%d is %v", code, kind)
		}
	}
}

func TestWrap_findsTheKind(t *testing.T) {
	t.Parallel()
	h := open(t, Config{URI: "test:///default"})
	failure := func(code golibvirt.ErrorNumber) error { return golibvirt.Error{Code: code, Message: "it broke"} }
	full := func(code golibvirt.ErrorNumber) error {
		return golibvirt.Error{Code: code, Message: "cannot fill file '/x': No space left on device"}
	}
	stopped := golibvirt.Error{
		Code:    golibvirt.ERR_INTERNAL_ERROR,
		Message: "unable to execute QEMU command 'cont': Resetting the Virtual Machine is required",
	}
	noFile := golibvirt.Error{
		Code: golibvirt.ERR_SYSTEM_ERROR, Message: "cannot open directory '/x': No such file or directory",
	}
	for name, test := range map[string]struct {
		spec callSpec
		err  error
		lost bool
		kind error
	}{
		"specific":          {readCall("x"), failure(golibvirt.ERR_NO_DOMAIN), false, ErrNotFound},
		"specific, lost":    {readCall("x"), failure(golibvirt.ERR_NO_DOMAIN), true, ErrNotFound},
		"disk full":         {changeCall("x"), full(golibvirt.ERR_SYSTEM_ERROR), false, ErrDiskFull},
		"disk full, lost":   {changeCall("x"), full(golibvirt.ERR_SYSTEM_ERROR), true, ErrUnreachable},
		"no file":           {changeCall("x"), noFile, false, ErrNoFile},
		"stopped for good":  {changeCall("x"), stopped, false, ErrResetRequired},
		"no driver":         {readCall("x"), failure(golibvirt.ERR_NO_CONNECT), false, ErrNoDriver},
		"no driver, lost":   {readCall("x"), failure(golibvirt.ERR_NO_CONNECT), true, ErrUnreachable},
		"internal":          {readCall("x"), failure(golibvirt.ERR_INTERNAL_ERROR), false, ErrInternal},
		"internal, lost":    {readCall("x"), failure(golibvirt.ERR_INTERNAL_ERROR), true, ErrUnreachable},
		"system, lost":      {defineCall("x"), failure(golibvirt.ERR_SYSTEM_ERROR), true, ErrUnreachable},
		"rpc":               {readCall("x"), failure(golibvirt.ERR_RPC), false, ErrInternal},
		"rpc, lost":         {readCall("x"), failure(golibvirt.ERR_RPC), true, ErrUnreachable},
		"rpc, agent":        {agentCall("x"), failure(golibvirt.ERR_RPC), false, ErrAgentFailed},
		"rpc, agent, lost":  {agentCall("x"), failure(golibvirt.ERR_RPC), true, ErrUnreachable},
		"agent refuses":     {agentCall("x"), failure(golibvirt.ERR_INTERNAL_ERROR), false, ErrAgentFailed},
		"agent, lost":       {agentCall("x"), failure(golibvirt.ERR_INTERNAL_ERROR), true, ErrUnreachable},
		"no agent":          {agentCall("x"), failure(golibvirt.ERR_ARGUMENT_UNSUPPORTED), false, ErrAgentUnavailable},
		"agent, no driver":  {agentCall("x"), failure(golibvirt.ERR_NO_SUPPORT), false, ErrUnsupported},
		"read too late":     {readCall("x"), context.DeadlineExceeded, false, ErrUnreachable},
		"agent too late":    {agentCall("x"), context.DeadlineExceeded, false, ErrAgentUnavailable},
		"start too late":    {changeCall("x"), context.DeadlineExceeded, false, ErrBusy},
		"cancelled":         {changeCall("x"), context.Canceled, false, context.Canceled},
		"dial":              {readCall("x"), errors.New("connection refused"), false, ErrUnreachable},
		"dial, denied":      {readCall("x"), fmt.Errorf("%w: bad key", ErrDenied), false, ErrDenied},
		"domain of someone": {readCall("x"), failure(golibvirt.ERR_MULTIPLE_DOMAINS), false, ErrInvalid},
	} {
		err := h.wrap(test.spec, test.err, test.lost)
		if !errors.Is(err, test.kind) || !errors.Is(err, ErrNotFound) != !errors.Is(test.kind, ErrNotFound) {
			t.Errorf("%s: got %v, want one that is %q", name, err, test.kind)
		}
		if errors.Is(err, ErrUnreachable) != errors.Is(test.kind, ErrUnreachable) {
			t.Errorf("%s: %v says whether the host answers, and is %q", name, err, test.kind)
		}
		if again := h.wrap(readCall("y"), err, true); again.Error() != err.Error() || !errors.Is(again, test.kind) {
			t.Errorf("%s: wrapped twice it became %v", name, again)
		}
	}
	if text := h.wrap(readCall("reading it"), failure(1), false).Error(); text != "host kvm1: reading it: it broke" {
		t.Errorf("got %q", text)
	}
}

func TestError_showsNoXML(t *testing.T) {
	t.Parallel()
	h := testDriver(t)
	_, err := h.DefineDomain(t.Context(), `<domain type='test'><name>a</name><graphics passwd='secret12'/></domain>`)
	want(t, err, ErrInvalid)
	if strings.Contains(err.Error(), "secret12") {
		t.Errorf("%v", err)
	}
}

// TestHost_poolGoneAfterRefusal: a call is refused because its pool was stopped, and the pool is undefined before it is
// looked at. Then it is known that there is no such pool, as if the call had come later.
func TestHost_poolGoneAfterRefusal(t *testing.T) {
	t.Parallel()
	h := open(t, Config{URI: "test:///default"})
	refused := &Error{Kind: ErrOperationInvalid, Code: int(golibvirt.ERR_OPERATION_INVALID)}
	if err := h.ofPool(t.Context(), "gone", refused); !errors.Is(err, ErrNoPool) {
		t.Errorf("a refusal about a pool that is gone is %v", err)
	}
}
