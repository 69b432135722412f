#!/bin/bash
# An LDAP server over TLS (/etc/ldap-tls/tls.crt, tls.key) with what /etc/ldap-people/people.ldif says of dc=example,dc=org;
# people may have the attribute sshPublicKey. For tests.
set -euo pipefail
data=/var/lib/ldap-data conf=/tmp/slapd.conf
mkdir -p $data
cat > $conf <<'C'
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
attributetype ( 1.3.6.1.4.1.24552.500.1.1.1.13 NAME 'sshPublicKey' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )
objectclass ( 1.3.6.1.4.1.24552.500.1.1.2.0 NAME 'ldapPublicKey' SUP top AUXILIARY MAY ( sshPublicKey $ uid ) )
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile /etc/ldap-tls/tls.crt
TLSCertificateKeyFile /etc/ldap-tls/tls.key
database mdb
suffix dc=example,dc=org
directory /var/lib/ldap-data
access to attrs=userPassword by anonymous auth by * none
access to * by * read
C
slapadd -f $conf -l /etc/ldap-people/people.ldif
ulimit -n 1024   # it makes room for as many connections as there may be files
exec slapd -d 256 -f $conf -h ldaps://0.0.0.0/
