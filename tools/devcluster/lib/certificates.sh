# One certificate authority for everything but the API server's word to those it passes requests on to, which has its own;
# a kubeconfig for each identity.

make_ca() { # NAME SUBJECT
  openssl ecparam -name prime256v1 -genkey -noout -out "$PKI/$1.key"
  openssl req -x509 -new -key "$PKI/$1.key" -subj "$2" -days 3650 -out "$PKI/$1.crt"
}

make_token_key() {
  openssl genrsa -out "$PKI/sa.key" 2048 2>/dev/null
  openssl rsa -in "$PKI/sa.key" -pubout -out "$PKI/sa.pub" 2>/dev/null
}

make_cert() { # NAME SUBJECT [SUBJECT_ALT_NAMES [CA]]
  openssl ecparam -name prime256v1 -genkey -noout -out "$PKI/$1.key"
  # a random serial: certificates of several nodes are made at the same time, a serial file would be a race
  openssl req -new -key "$PKI/$1.key" -subj "$2" |
    openssl x509 -req -CA "$PKI/${4:-ca}.crt" -CAkey "$PKI/${4:-ca}.key" -set_serial "0x1$(openssl rand -hex 15)" -days 3650 -out "$PKI/$1.crt" \
      -extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "${3:-DNS:localhost}") 2>/dev/null
}

make_kubeconfig() { # NAME: for the certificate of that name
  # the user's name is quoted: a plain `n` would be YAML for false
  cat > "$STATE/$1.kubeconfig" <<Y
apiVersion: v1
kind: Config
clusters: [{name: devcluster, cluster: {server: "$API", certificate-authority: $PKI/ca.crt}}]
users: [{name: "$1", user: {client-certificate: $PKI/$1.crt, client-key: $PKI/$1.key}}]
contexts: [{name: devcluster, context: {cluster: devcluster, user: "$1"}}]
current-context: devcluster
Y
}

make_identity() { make_cert "$@"; make_kubeconfig "$1"; }
