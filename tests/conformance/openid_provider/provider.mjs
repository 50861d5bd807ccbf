// An OpenID provider on a free port of this machine; prints its address.
import { createServer } from "node:http";
import { Provider } from "oidc-provider";

const server = createServer();
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const issuer = `http://127.0.0.1:${server.address().port}`;
const resource = (audience) => ({
  scope: "read",
  audience,
  accessTokenFormat: "jwt",
  accessTokenTTL: 600,
  jwt: { sign: { alg: "RS256" } },
});
const provider = new Provider(issuer, {
  clients: ["reader", "stranger"].map((id) => ({
    client_id: id,
    client_secret: "a secret of the test",
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
  })),
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, asked) => resource(asked),
    },
  },
  extraTokenClaims: (_, token) => ({
    sub: token.clientId,
    roles: token.clientId === "reader" ? ["reader"] : [],
  }),
});
server.on("request", provider.callback());
console.log(issuer);
