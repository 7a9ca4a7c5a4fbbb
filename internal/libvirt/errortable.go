package libvirt

import golibvirt "libvirt.org/go/libvirt"

// kindOf returns the kind of an error number. No other function interprets libvirt's error numbers.
func kindOf(code golibvirt.ErrorNumber) error {
	if kind, ok := kinds[code]; ok {
		return kind
	}
	return ErrInternal
}

// kinds has no entry for numbers that only mean "it failed". Some VIR_ERR_NO_* numbers don't say that an object is
// missing: they are about an XML document without a name or target, or about libvirt itself. Reading these as "not
// found" would drop a healthy VM from the state.
var kinds = map[golibvirt.ErrorNumber]error{
	golibvirt.ERR_NO_DOMAIN:            ErrNotFound,
	golibvirt.ERR_NO_NETWORK:           ErrNotFound,
	golibvirt.ERR_NO_STORAGE_POOL:      ErrNotFound,
	golibvirt.ERR_NO_STORAGE_VOL:       ErrNotFound,
	golibvirt.ERR_NO_NODE_DEVICE:       ErrNotFound,
	golibvirt.ERR_NO_INTERFACE:         ErrNotFound,
	golibvirt.ERR_NO_NWFILTER:          ErrNotFound,
	golibvirt.ERR_NO_NWFILTER_BINDING:  ErrNotFound,
	golibvirt.ERR_NO_NETWORK_PORT:      ErrNotFound,
	golibvirt.ERR_NO_SECRET:            ErrNotFound,
	golibvirt.ERR_NO_DOMAIN_SNAPSHOT:   ErrNotFound,
	golibvirt.ERR_NO_DOMAIN_CHECKPOINT: ErrNotFound,
	golibvirt.ERR_NO_DOMAIN_BACKUP:     ErrNotFound,

	golibvirt.ERR_NO_DOMAIN_METADATA:  ErrLacking,
	golibvirt.ERR_NO_NETWORK_METADATA: ErrLacking,
	golibvirt.ERR_NO_HOSTNAME:         ErrLacking,
	golibvirt.ERR_DEVICE_MISSING:      ErrLacking,

	golibvirt.ERR_DOM_EXIST:          ErrExists,
	golibvirt.ERR_NETWORK_EXIST:      ErrExists,
	golibvirt.ERR_NETWORK_PORT_EXIST: ErrExists,
	golibvirt.ERR_STORAGE_VOL_EXIST:  ErrExists,
	golibvirt.ERR_STORAGE_POOL_BUILT: ErrExists,

	golibvirt.ERR_AGENT_UNRESPONSIVE:    ErrAgentUnavailable,
	golibvirt.ERR_AGENT_UNSYNCED:        ErrAgentUnavailable,
	golibvirt.ERR_AGENT_COMMAND_TIMEOUT: ErrAgentUnavailable,
	golibvirt.ERR_AGENT_COMMAND_FAILED:  ErrAgentFailed,

	golibvirt.ERR_NO_SUPPORT:            ErrUnsupported,
	golibvirt.ERR_OS_TYPE:               ErrUnsupported,
	golibvirt.ERR_CONFIG_UNSUPPORTED:    ErrUnsupported,
	golibvirt.ERR_ARGUMENT_UNSUPPORTED:  ErrUnsupported,
	golibvirt.ERR_OPERATION_UNSUPPORTED: ErrNotNow,
	golibvirt.ERR_CPU_INCOMPATIBLE:      ErrUnsupported,

	golibvirt.ERR_INVALID_ARG:               ErrInvalid,
	golibvirt.ERR_INVALID_MAC:               ErrInvalid,
	golibvirt.ERR_XML_ERROR:                 ErrInvalid,
	golibvirt.ERR_XML_DETAIL:                ErrInvalid,
	golibvirt.ERR_XML_INVALID_SCHEMA:        ErrInvalid,
	golibvirt.ERR_CONF_SYNTAX:               ErrInvalid,
	golibvirt.ERR_PARSE_FAILED:              ErrInvalid,
	golibvirt.ERR_OVERFLOW:                  ErrInvalid,
	golibvirt.ERR_NO_NAME:                   ErrInvalid,
	golibvirt.ERR_NO_OS:                     ErrInvalid,
	golibvirt.ERR_NO_ROOT:                   ErrInvalid,
	golibvirt.ERR_NO_KERNEL:                 ErrInvalid,
	golibvirt.ERR_NO_SOURCE:                 ErrInvalid,
	golibvirt.ERR_NO_TARGET:                 ErrInvalid,
	golibvirt.ERR_NO_DEVICE:                 ErrInvalid,
	golibvirt.ERR_INVALID_ENCR_KEY_SECRET:   ErrInvalid,
	golibvirt.ERR_MULTIPLE_DOMAINS:          ErrInvalid,
	golibvirt.ERR_MULTIPLE_INTERFACES:       ErrInvalid,
	golibvirt.ERR_OPERATION_INVALID:         ErrOperationInvalid,
	golibvirt.ERR_BLOCK_COPY_ACTIVE:         ErrOperationInvalid,
	golibvirt.ERR_SNAPSHOT_REVERT_RISKY:     ErrOperationInvalid,
	golibvirt.ERR_CHECKPOINT_INCONSISTENT:   ErrOperationInvalid,
	golibvirt.ERR_AUTH_FAILED:               ErrDenied,
	golibvirt.ERR_AUTH_CANCELLED:            ErrDenied,
	golibvirt.ERR_AUTH_UNAVAILABLE:          ErrDenied,
	golibvirt.ERR_ACCESS_DENIED:             ErrDenied,
	golibvirt.ERR_OPERATION_DENIED:          ErrReadOnly,
	golibvirt.ERR_OPERATION_TIMEOUT:         ErrBusy,
	golibvirt.ERR_RESOURCE_BUSY:             ErrBusy,
	golibvirt.ERR_OPERATION_ABORTED:         ErrAborted,
	golibvirt.ERR_MIGRATE_UNSAFE:            ErrUnsafe,
	golibvirt.ERR_UNKNOWN_HOST:              ErrUnreachable,
	golibvirt.ERR_NO_CONNECT:                ErrUnreachable,
	golibvirt.ERR_INVALID_CONN:              ErrUnreachable,
	golibvirt.ERR_GNUTLS_ERROR:              ErrUnreachable,
	golibvirt.ERR_SSH:                       ErrUnreachable,
	golibvirt.ERR_LIBSSH:                    ErrUnreachable,
	golibvirt.ERR_NO_SERVER:                 ErrUnreachable,
	golibvirt.ERR_INVALID_DOMAIN:            ErrInternal,
	golibvirt.ERR_INVALID_NETWORK:           ErrInternal,
	golibvirt.ERR_INVALID_SECRET:            ErrInternal,
	golibvirt.ERR_INVALID_STORAGE_POOL:      ErrInternal,
	golibvirt.ERR_INVALID_STORAGE_VOL:       ErrInternal,
	golibvirt.ERR_INVALID_NODE_DEVICE:       ErrInternal,
	golibvirt.ERR_INVALID_INTERFACE:         ErrInternal,
	golibvirt.ERR_INVALID_NWFILTER:          ErrInternal,
	golibvirt.ERR_INVALID_NWFILTER_BINDING:  ErrInternal,
	golibvirt.ERR_INVALID_NETWORK_PORT:      ErrInternal,
	golibvirt.ERR_INVALID_DOMAIN_SNAPSHOT:   ErrInternal,
	golibvirt.ERR_INVALID_DOMAIN_CHECKPOINT: ErrInternal,
	golibvirt.ERR_INVALID_STREAM:            ErrInternal,
}

// ofClient are the parts of libvirt whose errors come from the client, when it opens a connection to a daemon. Any
// other comes from the daemon, through an intact connection.
var ofClient = map[golibvirt.ErrorDomain]bool{golibvirt.FROM_RPC: true, golibvirt.FROM_REMOTE: true}

// breaksConnection are the numbers that libvirt's client returns for a call whose connection broke. They also have
// other causes, so they count only if the connection is found to be broken.
var breaksConnection = map[golibvirt.ErrorNumber]bool{
	golibvirt.ERR_INTERNAL_ERROR:   true,
	golibvirt.ERR_SYSTEM_ERROR:     true,
	golibvirt.ERR_RPC:              true,
	golibvirt.ERR_NO_CONNECT:       true,
	golibvirt.ERR_INVALID_CONN:     true,
	golibvirt.ERR_GNUTLS_ERROR:     true,
	golibvirt.ERR_OPERATION_FAILED: true,
}
